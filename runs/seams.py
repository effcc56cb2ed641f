"""Where the apps above tell the run pages what only they know. Each is set once, when its app starts (`AppConfig.ready`).

`runs` may not import `versioning`; without a value here a page falls back to what the runs themselves say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import Q

COUNTS: dict[str, Callable[[Any, str], int]] = {}
"""Counts in the top bar by name (`approvals`, `deploys`): (user, environment or '') -> number."""

CURRENT_BUILDS: list[Callable[[], Mapping[tuple[str, str], str]]] = []
"""(agent, environment) -> label of the build that new runs go to."""

NOBODY_RESUMES: list[Callable[[], Q]] = []
"""A condition on `runs.Run`: in flight, and no live worker can take it (added to the finding `stranded`)."""

DIFFERENCES: list[Callable[[Sequence[int]], Mapping[int, str]]] = []
"""head ids -> a few words on what differs between the run's versions and its agent's current build."""


class Need(NamedTuple):
    """One line of the overview that needs a person."""

    mean: str  # attention, broken, waiting
    title: str
    text: str
    url: str
    since: Any = None  # a datetime


NEEDS: list[Callable[[str], Sequence[Need]]] = []
"""environment or '' -> lines for the overview (deploys that drain or wait for a decision)."""
