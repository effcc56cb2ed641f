"""The adapters, by the word that names their format. A new runtime is one package and one word here."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from journals.adapters.base import AdapterInfo, Evidence

__all__ = ["ADAPTERS", "NATIVE"]

NATIVE: Final = AdapterInfo(
    name="native",
    title="Drainboard",
    evidence=Evidence(
        write="before_effect",
        read="never",
        attempts=True,
        says_end=True,
        note="Starts of writes are acknowledged before the effect; a read in flight may have left no start.",
    ),
    capabilities=frozenset({"stop", "pin", "resume", "approve"}),
)
"""Our own store, which runs that use the client write to."""

_MODULES: Final = ("temporal", "dbos", "aws", "restate", "otel", "cloudflare", "durabletask", "langgraph", "lines")

ADAPTERS: Final[dict[str, ModuleType]] = {name: import_module(f"{__name__}.{name}") for name in _MODULES}
"""By format name, in the order in which they are asked; `lines` comes last because its files say the least about themselves."""
