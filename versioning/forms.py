"""Forms of deploys and of the actions on runs. They own names and cleaning; what may be done is decided in the actions."""

from __future__ import annotations

from typing import Any

from django import forms

from versioning.models import STOP_NAMES, AgentPolicy

REASON = forms.CharField(max_length=2_000, widget=forms.Textarea(attrs={"rows": 2}), label="Reason")


def _text(label: str, *, required: bool = False, rows: int = 0, limit: int = 2_000) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": rows}) if rows else forms.TextInput()
    return forms.CharField(max_length=limit, required=required, widget=widget, label=label)


class NewDeployForm(forms.Form):
    """A deploy to open. `build` is `agent label` of a registered build, as the list offers it."""

    agent = _text("Agent", required=True, limit=512)
    environment = _text("Environment", required=True, limit=200)
    build = _text("Build", required=True, limit=512)


class DecisionForm(forms.Form):
    """A decision about a group or one run of a deploy, as the page showed it at `version`."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    action = forms.ChoiceField(choices=[(a, a) for a in ("pin", "stop", "continue")], widget=forms.HiddenInput)
    group = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    run = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    reason = _text("Reason", required=True, rows=2)
    name = forms.ChoiceField(choices=[(n, n) for n in STOP_NAMES], required=False, label="Stop name")
    message = _text("Message", rows=2)

    def clean(self) -> dict[str, Any]:
        """A stop says its name and a message."""
        found = dict(self.cleaned_data)
        if found.get("action") == "stop":
            for field in ("name", "message"):
                if not found.get(field):
                    self.add_error(field, "A stop carries this; whoever reads the run sees it.")
        return found


class VersionForm(forms.Form):
    """A step of a deploy, taken as the page showed it."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    reason = _text("Reason", required=True, rows=2)


class RunActionForm(forms.Form):
    """An action on one run; which fields count depends on the action."""

    reason = _text("Reason", required=True, rows=2)
    build = _text("Build", limit=512)
    other_build = _text("Another build", limit=512)
    name = forms.ChoiceField(choices=[(n, n) for n in STOP_NAMES], required=False, label="Stop name")
    message = _text("Message", rows=2)

    def clean(self) -> dict[str, Any]:
        """A build that was typed goes before one that was chosen."""
        found = dict(self.cleaned_data)
        if other := found.pop("other_build", ""):
            found["build"] = other
        return found


class GapForm(forms.Form):
    """What a person found out about a step whose effect may have happened."""

    outcome = forms.ChoiceField(
        choices=[("happened", ""), ("did_not_happen", ""), ("stop", "")], widget=forms.RadioSelect
    )
    result = _text("Result", rows=4, limit=1_000_000)
    evidence = _text("Evidence", required=True, rows=2)

    def clean(self) -> dict[str, Any]:
        """A step that happened needs its result, which the run then gets."""
        found = dict(self.cleaned_data)
        if found.get("outcome") == "happened" and not (found.get("result") or "").strip():
            self.add_error("result", "Give the JSON that the outside service answered; the run goes on with it.")
        return found


class PolicyForm(forms.Form):
    """What happens to an agent's runs when nobody decides."""

    agent = _text("Agent", required=True, limit=512)
    on_mismatch = forms.ChoiceField(choices=AgentPolicy.OnMismatch.choices)
    code_changes_compatible = forms.BooleanField(required=False)
