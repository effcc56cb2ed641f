"""What each state is called, what it means in one sentence, and which of the meanings it has. Words only; no rules.

A meaning is `good`, `waiting`, `attention`, `broken` or `plain`; pages give each a colour and a shape.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Word(NamedTuple):
    """How one state is shown."""

    mean: str
    title: str  # what it means and what ends it
    label: str = ""  # when the state's own name is not the best word


def _words(mean: str, **titles: str) -> dict[str, Word]:
    return {state: Word(mean, title) for state, title in titles.items()}


RUN: Final[dict[str, Word]] = {
    **_words(
        "good",
        running="A worker holds the lease; ends when it parks, is held, or finishes.",
        completed="The agent returned; the journal is closed and nothing will run again.",
    ),
    **_words(
        "waiting",
        parked="Waits for an approval, a signal, a timer or a child run; no worker is busy with it until that arrives.",
        idle="Nobody runs it: it can go on, and the next live worker of its build takes it.",
        stopping="A stop was asked for; it takes effect at the next step, and results of steps in flight are still taken.",
    ),
    **_words(
        "attention",
        held="Held back: a native run until a person releases, moves or stops it, an imported one by its own runtime; nothing is lost.",
        stuck="Its runtime keeps trying and failing at the same place; ends when the cause is repaired or the run is stopped.",
        stranded="No live worker of its build exists, so nobody can resume it; start one, or move the run to another build.",
    ),
    **_words("broken", failed="The agent ended with an error that nobody caught; the run will not go on by itself."),
    **_words(
        "plain",
        stopped="Stopped by a decision with a named error; it will not run again.",
        cancelled="Cancelled from outside; it will not run again.",
        continued="Closed and carried on by a successor run that starts with its summary.",
        unknown="The journal does not say how this run stands; the export may be cut or the runtime's word is not known.",
    ),
}

STEP: Final[dict[str, Word]] = {
    "started": Word("attention", "A start is recorded and no result: it may be running now, or it was cut off."),
    "result": Word("good", "A result is recorded; a replay answers from it and does not run the step again."),
    "error": Word("broken", "The last attempt recorded an error."),
    "unknown": Word("plain", "The journal does not tell whether this step finished."),
}

VERDICT: Final[dict[str, Word]] = {
    "done": Word("good", "A result is recorded and will be reused; the step does not run again."),
    "may_run_twice": Word(
        "attention",
        "Begun, or possibly begun, without a recorded result: a recovery may run it again.",
        "may run twice",
    ),
    "failed_may_have_run": Word(
        "attention",
        "It ended with an error, timeout or cancel, which does not prove that nothing happened.",
        "failed, may have run",
    ),
    "waiting": Word("waiting", "Parked on a timer, signal, approval or child run; it goes on when that arrives."),
    "not_started": Word(
        "plain", "Starts are recorded before effects here, and none is recorded: it has not begun.", "not started"
    ),
    "unknown": Word("plain", "The journal has a hole, a torn end or an unreadable part here, so nothing is proven."),
}

APPROVAL: Final[dict[str, Word]] = {
    "requested": Word("waiting", "A person has to decide; the run is parked until then."),
    "approved": Word("good", "Approved for exactly this artifact, and not used yet."),
    "rejected": Word("broken", "Refused by a person; the action will not run."),
    "sent_back": Word("attention", "Sent back to the agent with a message; a new request has to be made.", "sent back"),
    "expired": Word("plain", "Nobody decided in time; the request can no longer be approved."),
    "withdrawn": Word("plain", "Taken back before a decision counted, for example because the tool's schema changed."),
    "delivered": Word("good", "Approved, and the run has received the answer; the action has not started yet."),
    "used": Word("good", "Approved, delivered and used once by the step that it was given for."),
}

DEPLOY: Final[dict[str, Word]] = {
    "same": Word("good", "Every recorded version equals the build's; nothing to decide."),
    "compatible": Word("good", "Something differs, in a way that this agent's policy calls safe for runs in flight."),
    "mismatch": Word(
        "attention", "The build changes something that these runs have already used; decide before they wake."
    ),
    "code_changed": Word(
        "attention",
        "App or SDK changed; the agent's policy or a clean replay check has to say whether that is safe.",
        "code changed",
    ),
    "assess": Word("plain", "The runs in flight are being compared with the build."),
    "decide": Word("attention", "Groups of runs wait for a decision: pin and drain, continue or stop."),
    "rolling_out": Word("waiting", "The decisions are being written and new runs go to the new build.", "rolling out"),
    "draining": Word("waiting", "Runs pinned to the old build are finishing on it; ends when none is left."),
    "drained": Word("good", "No unfinished or not-understood run holds the old build."),
    "rolled_back": Word("plain", "The deploy was taken back; new runs go to the old build again.", "rolled back"),
}

OTHER: Final[dict[str, Word]] = {
    "complete": Word("good", "Everything in the file was read, and the export states its own end."),
    "partial": Word("attention", "Part was read; what was not read is listed with line, byte and reason."),
    "refused": Word("broken", "Nothing was taken from it; the reason is named."),
    "queued": Word("waiting", "Waits for a background worker."),
    "active": Word("good", "In use now."),
    "revoked": Word("plain", "Taken back; it opens nothing any more."),
    "stranded": RUN["stranded"],
    "late": Word(
        "attention", "A result that came after its worker had lost the run: evidence only, never replayed by itself."
    ),
}

GROUPS: Final[dict[str, dict[str, Word]]] = {
    "run": RUN,
    "step": STEP,
    "verdict": VERDICT,
    "approval": APPROVAL,
    "deploy": DEPLOY,
    "other": OTHER,
}
SEVERITIES: Final = {"error": "broken", "warning": "attention", "info": "plain"}


def word_for(state: str, of: str = "") -> Word:
    """The word for a state, from its own group when `of` names one, else from the first group that knows it.

    A state that nobody described is shown under its own name, plainly.
    """
    for group in ([GROUPS[of]] if of in GROUPS else []) + list(GROUPS.values()):
        if state in group:
            return group[state]
    return Word("plain", f"The state is recorded as “{state}”; this page has no description of it.")
