"""Reads Temporal; `docs/adapters-temporal.md` gives the mapping. An adapter as `journals.adapters.base` describes it."""

from journals.adapters.temporal.adapter import INFO, read, sniff

__all__ = ["INFO", "read", "sniff"]
