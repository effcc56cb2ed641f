"""What people post about approvals."""

from __future__ import annotations

from django import forms

from runs.approvals.queries import VIEWS


class InboxForm(forms.Form):
    """The inbox's address: which requests, of which agent."""

    view = forms.ChoiceField(choices=[(v, v) for v in VIEWS], required=False)
    agent = forms.CharField(max_length=512, required=False)
    environment = forms.CharField(max_length=100, required=False)
    after = forms.IntegerField(min_value=0, required=False)
    theirs = forms.IntegerField(min_value=0, required=False)  # head id behind which the runs of other runtimes go on


class DecisionForm(forms.Form):
    """One decision. `fingerprint` and `shown` say what was on the page; `saw_hidden` is asked for when it held hidden characters."""

    decision = forms.ChoiceField(choices=[("approve", "approve"), ("reject", "reject"), ("send_back", "send_back")])
    fingerprint = forms.CharField(max_length=100)
    shown = forms.CharField(max_length=100)
    comment = forms.CharField(max_length=4_000, required=False)
    saw_hidden = forms.BooleanField(required=False)


class PolicyForm(forms.Form):
    """The next version of a policy. A tool or agent is taken as it is written, blanks included."""

    agent = forms.CharField(max_length=512, strip=False)
    tool = forms.CharField(max_length=512, strip=False)
    needed = forms.IntegerField(min_value=1, max_value=20, initial=1)
    groups = forms.MultipleChoiceField(required=False)
    four_eyes = forms.BooleanField(required=False, initial=True)
    expires_h = forms.FloatField(min_value=0.01, max_value=24 * 365, required=False)
    high_risk = forms.BooleanField(required=False)
    active = forms.BooleanField(required=False, initial=True)

    def __init__(self, *args: object, groups: list[str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.fields["groups"].choices = [(g, g) for g in groups]  # type: ignore[attr-defined]
