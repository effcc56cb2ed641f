"""The filter of the run list: it owns the names in the address, their cleaning, and the address itself."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from django import forms
from django.http import QueryDict
from django.urls import reverse

from runs.findings import CODES

STATUSES: Final = (
    "running",
    "parked",
    "held",
    "stuck",
    "stopping",
    "stopped",
    "completed",
    "failed",
    "cancelled",
    "continued",
    "unknown",
)
VIEWS: Final = {
    "in_flight": "in flight",
    "old_build": "in flight on an old build",
    "gap": "gap open",
    "nobody": "nobody can resume",
    "double": "may have had two effects",
    "parked": "parked",
    "near_limit": "near limit",
    "": "all",
}
"""The shortcut pills, in their order."""

VIEW_TITLES: Final = {
    "in_flight": "Runs that have not ended",
    "old_build": "Runs in flight whose build is not the one that new runs go to",
    "gap": "Runs with a step that may run again when the run recovers",
    "nobody": "Runs in flight, and not held, for which no live worker exists",
    "double": "Runs, ended ones too, of which an outside effect may have happened twice",
    "parked": "Runs that wait for an approval, a signal, a timer or a child run",
    "near_limit": "Runs at 80 % or more of a limit of their runtime",
    "": "Every run, ended ones too",
}
PAGE: Final = 50  # rows
SEARCH: Final = 2_000  # characters; a run's id has up to 1,200 bytes, and the key of a step holds one


class FilterForm(forms.Form):
    """Every field may be absent. `version` is `prompt refund-policy@14`, `model m-5` or `tool send_refund`,
    with `≠` or `!` before it; without the first word it is looked for among prompts, models and tools."""

    q = forms.CharField(required=False, max_length=SEARCH, strip=True)
    view = forms.ChoiceField(required=False, choices=[(v, v) for v in VIEWS])
    environment = forms.CharField(required=False, max_length=200)
    agent = forms.CharField(required=False, max_length=200)
    status = forms.ChoiceField(required=False, choices=[("", "any status"), *((s, s) for s in STATUSES)])
    build = forms.CharField(required=False, max_length=200)
    source = forms.CharField(required=False, max_length=200)
    finding = forms.ChoiceField(required=False, choices=[(code, code) for code in CODES])
    gap = forms.ChoiceField(
        required=False, choices=[(g, g) for g in ("may_run_twice", "failed_may_have_run", "unknown")]
    )
    version = forms.CharField(required=False, max_length=300)
    order = forms.ChoiceField(required=False, choices=[("", "newest first"), ("oldest", "oldest first")])
    after = forms.IntegerField(required=False, min_value=0)
    before = forms.IntegerField(required=False, min_value=0)

    def __init__(self, data: QueryDict) -> None:
        super().__init__(data)
        for name, field in self.fields.items():
            if isinstance(field, forms.ChoiceField):
                field.error_messages["invalid_choice"] = f"no such {name}: %(value)s"
            elif isinstance(field, forms.CharField):
                called = "the search" if name == "q" else f"the filter “{name}”"
                field.error_messages |= {
                    "max_length": f"{called} has %(show_value)d characters, the limit is %(limit_value)d",
                    "null_characters_not_allowed": f"{called} holds a NUL character, which no name has",
                }


class Tag(NamedTuple):
    """A filter that is on, and the address without it."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Filters:
    """The cleaned filter of one list page."""

    q: str = ""
    view: str = ""
    environment: str = ""
    agent: str = ""
    status: str = ""
    build: str = ""
    source: str = ""
    finding: str = ""
    gap: str = ""
    version: str = ""
    order: str = ""
    after: int | None = None  # rows behind this head id in the list's order
    before: int | None = None
    nothing: bool = False  # a text was refused, so no run is looked for: all runs would look like an answer

    @classmethod
    def read(cls, data: QueryDict) -> tuple[Filters, dict[str, list[str]]]:
        """The filters of an address, and sentences about values that mean nothing and were left out."""
        form = FilterForm(data)
        form.is_valid()
        clean: dict[str, Any] = {k: v for k, v in form.cleaned_data.items() if v not in (None, "")}
        texts = (name for name, field in form.fields.items() if type(field) is forms.CharField)
        clean["nothing"] = any(name in form.errors for name in texts)
        return cls(**clean), {name: [str(e) for e in errors] for name, errors in form.errors.items()}

    def url(self, **changes: Any) -> str:
        """The address of the list with these changes; cursors go unless they are given."""
        made = replace(self, **{"after": None, "before": None, "nothing": False, **changes})
        query = QueryDict(mutable=True)
        for field in fields(made):
            value = getattr(made, field.name)
            if value not in (None, "") and value is not False:
                query[field.name] = str(value)
        return reverse("runs:list") + (f"?{query.urlencode()}" if query else "")

    def tags(self) -> list[Tag]:
        """The filters that are on, beside view and environment, which show themselves elsewhere."""
        words = {
            "q": "id has",
            "agent": "agent",
            "status": "status",
            "build": "build",
            "source": "source",
            "finding": "finding",
            "gap": "gap",
            "version": "",
        }
        return [
            Tag(f"{word} {getattr(self, name)}".strip(), self.url(**{name: ""}))
            for name, word in words.items()
            if getattr(self, name)
        ]

    @property
    def narrowed(self) -> bool:
        """Something is filtered out."""
        return bool(self.tags() or self.view or self.environment or self.nothing)
