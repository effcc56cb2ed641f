"""What can go wrong in a run, each under its own name.

`Refused` and its kin are the server's refusals, by their code. Exceptions under `Interrupt` are no errors: they take the
agent's code out of the way when a run parks or its worker goes away, and are `BaseException` so that `except Exception`
in an agent lets them pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class DrainboardError(Exception):
    """Base of every error that this library raises."""


class JournalUnavailable(DrainboardError):
    """The journal did not answer in time. No record, no effect: nothing new was started."""


class NotJournalable(DrainboardError, TypeError):
    """A value is not JSON, so it cannot be recorded; the message says where it sits."""


class BadVersions(DrainboardError, ValueError):
    """The versions given for an agent or a build are not in a known form."""


class UnsupportedVersion(DrainboardError):
    """The run recorded a `run.version` answer that this build no longer supports."""


class MisusedRun(DrainboardError):
    """`run` was used where it cannot number steps: outside its agent, or beside branches that are still open."""


class StepFailed(DrainboardError):
    """A step's recorded failure. Raised alike when it happens and on every replay, so code may branch on it.

    `type` and `message` are the original exception's; live it is also the `__cause__`.
    """

    def __init__(self, *, name: str, branch: str, step: int, type: str, message: str, attempts: int) -> None:  # noqa: A002
        super().__init__(f"step {_place(branch, step)} ({name}) failed after {attempts} attempt(s): {type}: {message}")
        self.name, self.branch, self.step = name, branch, step
        self.type, self.message, self.attempts = type, message, attempts


class NonDeterministicReplay(DrainboardError):
    """This build leaves the path that the journal records; raised before anything runs.

    `detail` holds `branch`, `step`, `differs` (field names), `recorded`, `this_build`, `entries` (numbers in the journal)
    and `diff` (`path`, `recorded`, `this_build` per changed JSON value).
    """

    def __init__(self, message: str, detail: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.detail = dict(detail)


class ApprovalOutcome(DrainboardError):
    """An approval was decided otherwise than yes. Recorded, so it is raised alike on every replay."""

    def __init__(self, message: str, *, approval: str, by: str | None, comment: str | None) -> None:
        super().__init__(message)
        self.approval, self.by, self.comment = approval, by, comment


class ApprovalDenied(ApprovalOutcome):
    """A person said no; `comment` is the reason."""


class ApprovalSentBack(ApprovalOutcome):
    """A person sent the artifact back; `comment` says what to change. Ask again with another artifact."""


class ApprovalExpired(ApprovalOutcome):
    """Nobody decided in time."""


class Refused(DrainboardError):
    """The server understood and did not do it; nothing was written."""

    code: ClassVar[str] = "Refused"

    def __init__(
        self, message: str, *, detail: Mapping[str, Any] | None = None, code: str = "", retry: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = dict(detail or {})
        self.refusal = code or self.code  # the server's own word, also for codes that this version does not know
        self.retry = retry


class LeaseLost(Refused):
    """Another worker has opened the run since, or the lease ran out before the step could start."""

    code = "LeaseLost"


class LeaseHeld(Refused):
    """Another worker's lease on the run is live."""

    code = "LeaseHeld"


class PinnedToBuild(Refused):
    """The run is pinned to another build than this worker's."""

    code = "PinnedToBuild"


class RunStopped(Refused):
    """The run was stopped; `name` is one of the documented stop names."""

    code = "RunStopped"

    def __init__(
        self, message: str, *, detail: Mapping[str, Any] | None = None, code: str = "", retry: bool = False
    ) -> None:
        found = dict(detail or {})
        self.name = str(found.get("name") or found.get("stop") or "StoppedByOperator")
        super().__init__(str(found.get("message") or message), detail=found, code=code, retry=retry)

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class RunHeld(Refused):
    """The run is held until a person decides."""

    code = "RunHeld"


class RunEnded(Refused):
    """The run is over."""

    code = "RunEnded"


class ApprovalRequired(Refused):
    """The tool is under an approval policy and this step has no valid approval."""

    code = "ApprovalRequired"


class ApprovalMismatch(Refused):
    """What is about to run is not what was approved; `detail` names the field."""

    code = "ApprovalMismatch"


class JournalLimitReached(Refused):
    """The run's journal is as long as it may get; roll the run over."""

    code = "JournalLimitReached"


class EntryConflict(Refused):
    """The entry id is taken by an entry with other content."""

    code = "EntryConflict"


class KindNotAllowed(Refused):
    """A worker's token may not append entries of this kind."""

    code = "KindNotAllowed"


class UnknownRun(Refused):
    """No run has this key, as far as this token may see."""

    code = "UnknownRun"


class MalformedEntry(Refused):
    """A line is not a journal entry."""

    code = "MalformedEntry"


class MalformedRequest(Refused):
    """The request is not what the API's documentation asks for."""

    code = "MalformedRequest"


class TooLarge(Refused):
    """A value or body is over the server's limit; nothing of it was kept."""

    code = "TooLarge"


class NotAuthenticated(Refused):
    """No token, or one that is unknown, expired or revoked."""

    code = "NotAuthenticated"


class NotAllowed(Refused):
    """The token has not the right for this."""

    code = "NotAllowed"


BY_CODE: Mapping[str, type[Refused]] = {c.code: c for c in Refused.__subclasses__()}


def refusal(error: Mapping[str, Any]) -> Refused:
    """The exception for the API's `error` object; codes that this version does not know become plain `Refused`."""
    code, detail = str(error.get("code", "")), error.get("detail")
    found = dict(detail) if isinstance(detail, Mapping) else {}
    if code == "RunEnded" and found.get("ended") == "stopped":
        code = "RunStopped"
    message = str(error.get("message") or code or "refused without a reason")
    return BY_CODE.get(code, Refused)(message, detail=found, code=code, retry=bool(error.get("retry")))


class Interrupt(BaseException):
    """Takes the agent's code out of the way; not an error."""


class Parked(Interrupt):
    """The run waits for something outside and gives its worker free. `waits` are (reason, until) pairs."""

    def __init__(self, reason: str, *, until: str | None = None) -> None:
        super().__init__(reason)
        self.waits: list[tuple[str, str | None]] = [(reason, until)]


class Released(Interrupt):
    """The worker is going away; the run stands between two steps and another worker takes it up."""


def _place(branch: str, step: int) -> str:
    return f"{branch}:{step}" if branch else str(step)
