"""Refusals that cross the API: each has a stable code, a sentence, and whether a repeat can help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Refused(Exception):
    """The request was understood and not carried out; nothing was written."""

    code: ClassVar[str] = "Refused"
    status: ClassVar[int] = 409
    retry: ClassVar[bool] = False

    def __init__(self, message: str, /, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail: Mapping[str, Any] = detail

    def body(self) -> dict[str, Any]:
        """The API's error object."""
        return {"error": {"code": self.code, "message": self.message, "detail": dict(self.detail), "retry": self.retry}}


class MalformedRequest(Refused):
    """The request's body, header or parameter is not what the documentation asks for."""

    code, status = "MalformedRequest", 400


class UnknownCall(Refused):
    """There is no such address below /api/v1/."""

    code, status = "UnknownCall", 404


class MethodNotAllowed(Refused):
    """The address is right and its method is not; `Allow` names those that it takes."""

    code, status = "MethodNotAllowed", 405


class ServerError(Refused):
    """The server failed while it answered. What it was asked to write may stand or not: send the same request again."""

    code, status, retry = "ServerError", 500, True


class MalformedEntry(Refused):
    """A line is not a journal entry."""

    code, status = "MalformedEntry", 400


class TooLarge(Refused):
    """A line or body is over the limit; nothing of it was kept."""

    code, status = "TooLarge", 413


class SlowBody(Refused):
    """The body came slower than the server waits for; nothing of it was kept."""

    code, status, retry = "SlowBody", 408, True


class NotAuthenticated(Refused):
    """No token, or one that is unknown, expired or revoked."""

    code, status = "NotAuthenticated", 401


class NotAllowed(Refused):
    """The token or account has not the right for this."""

    code, status = "NotAllowed", 403


class KindNotAllowed(Refused):
    """A worker's token may not append entries of this kind."""

    code, status = "KindNotAllowed", 403


class UnknownRun(Refused):
    """No run has this key or id, as far as this token may see."""

    code, status = "UnknownRun", 404


class AmbiguousRun(Refused):
    """Several sources have a run of this id; name the source."""

    code, status = "AmbiguousRun", 409


class EntryConflict(Refused):
    """The entry id is taken by an entry with other content."""

    code = "EntryConflict"


class LeaseLost(Refused):
    """Another worker has opened the run since."""

    code = "LeaseLost"


class LeaseHeld(Refused):
    """Another worker's lease on the run is live."""

    code, retry = "LeaseHeld", True


class PinnedToBuild(Refused):
    """The run is pinned to another build than the worker's."""

    code = "PinnedToBuild"


class RunStopped(Refused):
    """The run was stopped with a named error."""

    code = "RunStopped"


class RunHeld(Refused):
    """The run is held until a person decides."""

    code = "RunHeld"


class RunEnded(Refused):
    """The run is over; it takes no more entries."""

    code = "RunEnded"


class ApprovalRequired(Refused):
    """The tool is under an approval policy and this step has no valid approval."""

    code = "ApprovalRequired"


class ApprovalMismatch(Refused):
    """What is about to run is not what was approved."""

    code = "ApprovalMismatch"


BY_CODE: Mapping[str, type[Refused]] = {c.code: c for c in Refused.__subclasses__()}
