"""Durable AI-agent runs: every model call and tool call is recorded, and a crash replays the code, not the world.

    @drainboard.agent("refund", versions="build.json")
    def refund(run, task):
        reply = run.model("decide", ask_model, [task])
        ...

`drainboard worker module:refund --build 41` runs it; `drainboard.start(refund, task, run_id="refund-8812")` starts a run.
"""

from drainboard.agent import Agent, agent, start
from drainboard.approvals import Approval
from drainboard.client import Client, Started, from_environment
from drainboard.errors import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalMismatch,
    ApprovalRequired,
    ApprovalSentBack,
    BadVersions,
    DrainboardError,
    JournalUnavailable,
    LeaseLost,
    MisusedRun,
    NonDeterministicReplay,
    NotJournalable,
    PinnedToBuild,
    Refused,
    RunEnded,
    RunHeld,
    RunStopped,
    StepFailed,
    UnsupportedVersion,
)
from drainboard.execute import Outcome
from drainboard.run import AsyncRun, Run, current_run
from drainboard.values import Answer, Record
from drainboard.versions import Versions
from drainboard.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Answer",
    "Approval",
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalMismatch",
    "ApprovalRequired",
    "ApprovalSentBack",
    "AsyncRun",
    "BadVersions",
    "Client",
    "DrainboardError",
    "JournalUnavailable",
    "LeaseLost",
    "MisusedRun",
    "NonDeterministicReplay",
    "NotJournalable",
    "Outcome",
    "PinnedToBuild",
    "Record",
    "Refused",
    "Run",
    "RunEnded",
    "RunHeld",
    "RunStopped",
    "Started",
    "StepFailed",
    "UnsupportedVersion",
    "Versions",
    "Worker",
    "agent",
    "current_run",
    "from_environment",
    "start",
]
