"""How to bring runs here from each runtime: what its people type, and what its journal proves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Final

from django.conf import settings

from journals.adapters import ADAPTERS, NATIVE

__all__ = ["HowTo", "how_to", "manage_py", "manage_py_needs"]


@dataclass(frozen=True, slots=True)
class HowTo:
    """One runtime's card."""

    name: str  # as in the address and on the command line
    title: str
    proves: str
    commands: str  # shell, made where the runtime is
    together: str
    by_command: str = ""  # shell, on this server
    by_api: str = ""  # shell, anywhere; $DRAINBOARD and $DRAINBOARD_TOKEN are set


_CLIENT: Final = """pip install ./client    # on Python 3.10 or newer; it needs nothing else
export DRAINBOARD_URL="$DRAINBOARD"
export DRAINBOARD_TOKEN=    # Settings, Tokens: scope worker
drainboard worker myagent:refund --build 41"""


_ONE_SPAN: Final = """NOW=$(date +%s)
curl -H "Authorization: Bearer $DRAINBOARD_TOKEN" -H 'Content-Type: application/json' -H 'drainboard-source: prod-agents' "$DRAINBOARD/v1/traces" -d @- <<SPAN
{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "refund-agent"}}]}, "scopeSpans": [{"spans": [{
  "traceId": "$(printf %032x "$NOW")", "spanId": "$(printf %016x "$NOW")", "name": "invoke_agent refund-agent",
  "startTimeUnixNano": "${NOW}000000000", "endTimeUnixNano": "${NOW}500000000",
  "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}, {"key": "gen_ai.agent.name", "value": {"stringValue": "refund-agent"}}]
}]}]}]}
SPAN"""


def manage_py() -> str:
    """How another shell in the installation's folder runs `manage.py` on this server's database."""
    data = str(settings.DRAINBOARD_DATA)
    embedded = settings.DATABASE_IS_EMBEDDED and data != str(settings.BASE_DIR / ".drainboard")
    return f"{'DRAINBOARD_DATA=' + quote(data) + ' ' if embedded else ''}.venv/bin/python manage.py"


def manage_py_needs() -> str:
    """What that shell needs beside the words of `manage_py`; "" for nothing. An address is not printed: it may hold a password."""
    return "" if settings.DATABASE_IS_EMBEDDED else "with the server's DATABASE_URL"


def how_to() -> Sequence[HowTo]:
    """A card for each runtime, in the order in which files are recognised, then our own client."""
    made = [
        HowTo(name, info.title, info.evidence.note, info.how_to_export, info.together, *_imports(name, info.files))
        for name, info in ((name, adapter.INFO) for name, adapter in ADAPTERS.items())
    ]
    about = (
        "For Python agents without a runtime: the worker writes its journal here as it goes. README and docs/client.md show an agent; "
        "nothing has to be imported."
    )
    return [*made, HowTo("native", "Drainboard's own client", NATIVE.evidence.note, _CLIENT, about)]


def _imports(name: str, files: Sequence[str]) -> tuple[str, str]:
    if not files:
        return "", _ONE_SPAN if name == "otel" else ""
    forms = " ".join(f"-F file=@{file}" for file in files)
    return (
        f"{manage_py()} import_journal {' '.join(files)} --source my-{name}",
        f'curl -H "Authorization: Bearer $DRAINBOARD_TOKEN" {forms} "$DRAINBOARD/api/v1/imports?source=my-{name}"',
    )
