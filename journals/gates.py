"""Which tools of an agent must not start without a used approval. The append function asks this table."""

from __future__ import annotations

from django.db import connection

from journals.models import Gate
from journals.text import encode_text


def lock(agent: str) -> None:
    """Makes changes of one agent's gates wait for each other, until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gates:' || %s))", [agent])


def keep(agent: str, tool: str, *, closed: bool) -> None:
    """Closes or opens the gate of a tool."""
    if closed:
        Gate.objects.get_or_create(agent=encode_text(agent), tool=encode_text(tool))
    else:
        Gate.objects.filter(agent=encode_text(agent), tool=encode_text(tool)).delete()
