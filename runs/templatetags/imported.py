"""What an import said of a run's files: `{% load imported %}`."""

from __future__ import annotations

from typing import Any

from django import template

from journals import imports_queries

register = template.Library()


@register.simple_tag
def import_doubts(run: Any) -> dict[str, Any] | None:
    """The import that brought the run's last entry, and its notes that leave open whether the file was all; None for none."""
    if run.native:
        return None
    number, notes = imports_queries.doubts_of(run.pk)
    return {"id": number, "notes": notes} if notes else None
