"""Reads Cloudflare Workflows; `docs/adapters-cloudflare.md` gives the mapping. An adapter as `journals.adapters.base` describes it."""

from journals.adapters.cloudflare.adapter import INFO, read, sniff

__all__ = ["INFO", "read", "sniff"]
