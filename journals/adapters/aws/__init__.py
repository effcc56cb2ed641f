"""Reads AWS Lambda durable functions; `docs/adapters-aws.md` gives the mapping. An adapter as `journals.adapters.base` describes it."""

from journals.adapters.aws.adapter import INFO, read, sniff

__all__ = ["INFO", "read", "sniff"]
