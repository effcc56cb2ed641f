"""Reads OpenTelemetry GenAI spans; `docs/adapters-otel.md` gives the mapping. An adapter as `journals.adapters.base` describes it."""

from journals.adapters.otel.adapter import INFO, read, sniff

__all__ = ["INFO", "read", "sniff"]
