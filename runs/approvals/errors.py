"""Refusals about approvals, with the API's codes."""

from __future__ import annotations

from journals.errors import Refused


class UnknownApproval(Refused):
    """The run has no approval of this name."""

    code, status = "UnknownApproval", 404


class AmbiguousArtifactRefused(Refused):
    """The artifact can be read in more than one way; it cannot be approved."""

    code, status = "AmbiguousArtifact", 400


class AlreadyDecided(Refused):
    """Somebody else was first; the detail says who, when and what."""

    code = "AlreadyDecided"


class MayNotDecide(Refused):
    """This person may not decide about this request."""

    code, status = "MayNotDecide", 403


class StaleView(Refused):
    """What was decided about is not what is stored; look again."""

    code = "StaleView"


class ApprovalExpired(Refused):
    """The yes, or the time to give one, has run out."""

    code = "ApprovalExpired"


class ApprovalDenied(Refused):
    """The decision was no."""

    code = "ApprovalDenied"


class ApprovalAlreadyUsed(Refused):
    """Another step has used this approval."""

    code = "ApprovalAlreadyUsed"
