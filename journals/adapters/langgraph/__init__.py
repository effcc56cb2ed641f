"""Reads LangGraph; `docs/adapters-langgraph.md` gives the mapping. An adapter as `journals.adapters.base` describes it."""

from journals.adapters.langgraph.adapter import INFO, read, sniff

__all__ = ["INFO", "read", "sniff"]
