"""The documented limits of a runtime's journals; those of our own store are settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from journals.adapters import NATIVE
from journals.adapters.base import AdapterInfo

__all__ = ["limits_of"]


def limits_of(info: AdapterInfo | None) -> tuple[Mapping[str, Any], ...]:
    """{what, unit, limit, source, as_of} each; empty for a runtime that documents none or is not known."""
    if info is not NATIVE:
        return info.limits if info else ()
    entries, size = settings.NATIVE_RUN_LIMITS
    source = "setting of this installation"
    return (
        {"what": "entries", "unit": "entries", "limit": entries, "source": f"RUN_LIMIT_ENTRIES, {source}", "as_of": ""},
        {"what": "bytes", "unit": "bytes", "limit": size, "source": f"RUN_LIMIT_MIB, {source}", "as_of": ""},
    )
