"""Reads Restate; `docs/adapters-restate.md` gives the mapping. An adapter as `journals.adapters.base` describes it."""

from journals.adapters.restate.adapter import INFO, read, sniff

__all__ = ["INFO", "read", "sniff"]
