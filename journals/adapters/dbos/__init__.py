"""Reads DBOS Transact; `docs/adapters-dbos.md` gives the mapping. An adapter as `journals.adapters.base` describes it."""

from journals.adapters.dbos.adapter import INFO, read, sniff

__all__ = ["INFO", "read", "sniff"]
