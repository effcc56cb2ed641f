"""The closed sets of words for runs, steps, verdicts and approvals. `docs/states.md` says the same for people.

Each value documents its life: who sets it, what ends it, what a crash leaves.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RunStatus(StrEnum):
    RUNNING = "running"
    """Started and not over: a worker has it, or one may take it. Set by `run.started` or an open; ended by any other status.
    A crash leaves it here with an expired lease, until a worker opens the run again or the finding `stranded` names it."""
    PARKED = "parked"
    """Waits for a timer, signal, approval, child or a person's word on a gap; no worker holds it. Set by `run.parked`;
    ended by the next open. A crash changes nothing: nobody was running it."""
    HELD = "held"
    """A person must decide. Set by `run.held` (a replay that differed, a mismatched build); ended by `run.released`, a move or a stop."""
    STUCK = "stuck"
    """The runtime tries and fails again and again by its own account. Set by an import; ended by a newer import."""
    STOPPING = "stopping"
    """A stop was asked for and has not happened. Set by `stop.requested`; ended by `run.stopped`. A crash leaves it here
    until the server stops the run itself when the lease has run out."""
    STOPPED = "stopped"
    """Over by a named stop. Set by `run.stopped`; final."""
    COMPLETED = "completed"
    """Over with a result. Set by `run.completed`; final."""
    FAILED = "failed"
    """Over with an error. Set by `run.failed`; final."""
    CANCELLED = "cancelled"
    """Over because its owner cancelled it. Set by `run.cancelled`; final."""
    CONTINUED = "continued"
    """Over here, goes on in its successor. Set by `run.continued`; final."""
    UNKNOWN = "unknown"
    """The record does not say whether the run is over: the end of a file that does not state its end, or a torn file.
    Set by an import; ended by one that says more. Counts as in flight wherever that is the careful reading."""


ENDED: Final = frozenset(
    (RunStatus.STOPPED, RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.CONTINUED)
)
"""Statuses after which a run takes no more steps. Every other one is in flight."""


class StepStatus(StrEnum):
    STARTED = "started"
    """A start stands in the journal and no answer. Set by `*.started`; ended by a result or an error. A crash leaves it here: the gap."""
    RESULT = "result"
    """A result is recorded; replay reuses it. Final, except that a conflict may cast doubt on it."""
    ERROR = "error"
    """The last attempt ended with an error. A later attempt may change it to `started` or `result`."""
    UNKNOWN = "unknown"
    """Known only from a hole, or from a runtime that records a step when it ends. Ended by an import that has the entry."""


class Verdict(StrEnum):
    """What happens to a step when its run goes on. Recomputed at every fold, from the entries alone."""

    DONE = "done"
    """A result is recorded; it will be reused."""
    MAY_RUN_TWICE = "may_run_twice"
    """A start is recorded or possible, and no result: the effect may have happened and would happen again."""
    FAILED_MAY_HAVE_RUN = "failed_may_have_run"
    """An error, timeout or cancel is recorded, which is no proof that the effect did not happen."""
    WAITING = "waiting"
    """Parked on a timer, signal, approval or child."""
    NOT_STARTED = "not_started"
    """Proven not to have begun. Only in our own store, where the start of a write is recorded before the write."""
    UNKNOWN = "unknown"
    """The journal cannot tell: a hole, a torn file, a conflict, or the end of an export that does not say it is the end."""


CALM: Final = frozenset((Verdict.DONE, Verdict.WAITING, Verdict.NOT_STARTED))
"""Verdicts that promise something. Taking an entry or a field away may never lead to one of these."""


class Confidence(StrEnum):
    CERTAIN = "certain"
    """An entry says it."""
    POSSIBLE = "possible"
    """The runtime records such things late or never; the careful reading of what is there."""
    UNKNOWN = "unknown"
    """Something is missing, so nothing can be said for sure."""


class Effects(StrEnum):
    """What the journal proves about the outside world."""

    NONE = "none"
    """No effect outside: a read, a wait, or a write proven not started."""
    ONE = "one"
    """Exactly one: every execution would have left a record, and there is one with its answer."""
    AT_LEAST_ONE = "at_least_one"
    """An answer is recorded; other executions cannot be ruled out."""
    UNKNOWN = "unknown"
    """It may or may not have happened."""


class ApprovalState(StrEnum):
    REQUESTED = "requested"
    """Asked, not answered. Ended by a decision, by its expiry or by a withdrawal."""
    APPROVED = "approved"
    """A yes stands. Ended by delivery, expiry or withdrawal; a yes that nobody uses is the finding `approval_not_used`."""
    REJECTED = "rejected"
    """A no stands; final."""
    SENT_BACK = "sent_back"
    """Returned with a message; a new artifact needs a new approval. Final."""
    EXPIRED = "expired"
    """Its time ran out before it was used. Final for every step but the one that used it."""
    WITHDRAWN = "withdrawn"
    """Taken back by the server or the asker, for example because a tool's schema changed. Final."""
    DELIVERED = "delivered"
    """The worker has the yes and has not acted on it yet. A crash leaves it here; the same step may ask again."""
    USED = "used"
    """`tool.started` stands under it. Final; the same step gets the same yes again after a crash, no other step does."""


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
