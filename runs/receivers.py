"""Folds runs as soon as the server itself has written to them. Workers' appends send no signal; pages and the sweep catch up on those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db.models import F
from django.dispatch import receiver

from journals import imports_queries, ingest
from journals.signals import entries_appended
from runs import projection, source_queries
from runs.models import Run

SMALL: Final = 2_000  # entries up to which a run is folded at every write


@receiver(entries_appended, dispatch_uid="runs.fold")
def fold_appended(head_ids: Sequence[int], **_: Any) -> None:
    """Folds these runs. A long one only when it has doubled since its last fold, so that an import in many batches stays cheap; catching up does the rest."""
    long = Run.objects.filter(pk__in=head_ids, folded_pos__gt=SMALL, head__pos__lt=F("folded_pos") * 2)
    later = set(long.values_list("pk", flat=True))
    projection.catch_up([i for i in head_ids if i not in later], go_on=True)


def status_of(head_ids: Sequence[int]) -> Mapping[int, tuple[str, bool]]:
    """(status, complete) of these runs, up to date with their journals: what a report of an import says of them."""
    projection.catch_up(head_ids, go_on=True)
    return {
        pk: (status, complete)
        for pk, status, complete in Run.objects.filter(pk__in=head_ids).values_list("pk", "status", "complete")
    }


ingest.status_of = status_of
imports_queries.in_flight_of = source_queries.in_flight_of
