"""Reads Durable Task and Azure Durable Functions; `docs/adapters-durabletask.md` gives the mapping. An adapter as `journals.adapters.base` describes it."""

from journals.adapters.durabletask.adapter import INFO, read, sniff

__all__ = ["INFO", "read", "sniff"]
