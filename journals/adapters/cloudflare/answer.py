"""The answer of `GET …/workflows/{name}/instances/{id}` (and `wrangler workflows instances describe --json`) as a `View`.

The answer is read member by member, so that a torn or damaged one still gives the steps that are whole in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import Unread
from journals.adapters.cloudflare.model import MAIN, Attempt, Extra, Step, View, bad_times, instant
from journals.adapters.cloudflare.scan import Stretch, records
from journals.adapters.jsonscan import Value
from journals.adapters.values import integer, text

_KNOWN: Final = frozenset(
    (
        "id", "status", "params", "queued", "start", "end", "output", "error", "steps", "step_count", "versionId",
        "success",
    )
)  # fmt: skip
_STEP: Final = frozenset(
    ("name", "type", "start", "end", "success", "finished", "output", "error", "config", "attempts", "event_type")
)


def is_answer(keys: frozenset[str]) -> bool:
    """Whether an object with these members is an instance as the API tells it."""
    return "status" in keys and "queued" in keys and ("steps" in keys or "step_count" in keys)


def answer(value: Value, path: str, unread: list[Unread]) -> View:
    """The instance that the answer shows. What cannot be read is added to `unread`."""
    view = View(form="answer", path=path, record=value.pointer or "/")
    steps: Value | None = None
    end = value.start + 1
    for name, member in value.members():
        end = member.end
        if name == "steps" and member.form == "[":
            steps = member
        elif member.torn:
            unread.append(member.unread(path, f"the file ends inside {name!r}"))
        else:
            _member(view, name, member, path, unread)
    if not value.torn and value.data[end : value.end].strip(b" \t\r\n,") not in (b"}", b""):
        _lose(view, unread, Value(value.data, end, value.end).unread(path, "the instance is damaged here"))
    view.cloud = view.version is not None or "trigger" in view.about
    for stretch in records(steps, _is_step) if steps is not None else ():
        _entry(view, stretch, path, unread)
        view.reach = max(view.reach, stretch.value.end)
    view.listed = steps is not None
    if value.torn and not view.torn and not view.lost:
        view.torn = "the file ends inside the instance"
    _number(view)
    if view.cloud:
        _open_texts(view)
    return view


def _member(view: View, name: str, member: Value, path: str, unread: list[Unread]) -> None:
    try:
        got, odd = member.load()
    except wire.MalformedLine:
        _lose(view, unread, member.unread(path, f"{name!r} is damaged"))
        return
    view.oddities += odd
    if name in ("queued", "start", "end"):
        setattr(view, name, instant(got))
        view.bad_times += bad_times({name: got}, (name,))
    elif name == "status":
        view.status = got if isinstance(got, str) else ""
    elif name == "id":
        view.run = got if isinstance(got, str) else ""
    elif name == "versionId":
        view.version = got if isinstance(got, str) and got else None
    elif name == "step_count":
        view.count = integer({"n": got}, "n")
    elif name in ("params", "output", "error"):
        setattr(view, name, got)
    elif name not in _KNOWN:
        view.about[name] = got


def _lose(view: View, unread: list[Unread], what: Unread) -> None:
    unread.append(what)
    view.lost = view.lost or what.reason


def _is_step(fields: Any) -> bool:
    return (
        isinstance(fields, Mapping)
        and isinstance(fields.get("type"), str)
        and not {"attempts", "finished", "trigger"}.isdisjoint(fields)
    )


def _entry(view: View, stretch: Stretch, path: str, unread: list[Unread]) -> None:
    """One entry of `steps`, or the stretch between two that could not be read."""
    fields = stretch.fields
    if stretch.problem:
        unread.append(stretch.value.unread(path, stretch.problem))
        if stretch.torn:
            view.torn = view.torn or stretch.problem
        else:
            view.lost = view.lost or stretch.problem
        return
    kind = text(fields, "type") if isinstance(fields, Mapping) else None
    name = text(fields, "name") if isinstance(fields, Mapping) else None
    record = stretch.value.pointer
    if kind is None or (name is None and kind in (*MAIN, "rollback")):
        _lose(view, unread, stretch.value.unread(path, "a step without a type or a name"))
    elif kind in (*MAIN, "rollback"):
        view.steps.append(_step(fields, kind, name or "", record, stretch.oddities))
        attempts = fields.get("attempts")
        timed = [fields, *(a for a in (attempts if isinstance(attempts, list) else ()) if isinstance(a, Mapping))]
        view.bad_times += sum(bad_times(one, ("start", "end")) for one in timed)
    else:
        what = wire.digest_bytes(stretch.value.raw)[7:19]
        view.extras.append(Extra(id=f"{kind}:{what}", name=kind, record=record, at=None, out=fields))


def _step(fields: Mapping[str, Any], kind: str, name: str, record: str, oddities: tuple[str, ...]) -> Step:
    attempts = fields.get("attempts")
    done = fields.get("success" if kind in ("step", "rollback") else "finished")
    if kind not in ("step", "rollback") and done is False:
        done = None
    return Step(
        type=kind,
        name=name,
        record=record,
        start=instant(fields.get("start")),
        end=instant(fields.get("end")),
        done=done if isinstance(done, bool) else None,
        output=fields.get("output", wire.MISSING),
        error=fields.get("error"),
        config=fields.get("config"),
        attempts=[_attempt(a) for a in attempts if isinstance(a, Mapping)] if isinstance(attempts, list) else [],
        event=text(fields, "event_type") or "",
        more={k: v for k, v in fields.items() if k not in _STEP},
        oddities=oddities,
    )


def _attempt(fields: Mapping[str, Any]) -> Attempt:
    success = fields.get("success")
    return Attempt(
        start=instant(fields.get("start")),
        end=instant(fields.get("end")),
        success=success if isinstance(success, bool) else None,
        error=fields.get("error"),
    )


def _number(view: View) -> None:
    """Steps in the order in which they began; an answer of `order=desc` is turned round."""
    starts = [step.start for step in view.steps if step.start]
    if len(starts) > 1 and starts[0] > starts[-1] and starts == sorted(starts, reverse=True):
        view.steps.reverse()
        if view.torn and view.count:
            number(view.steps, first=view.count - len(view.main))
            return
    number(view.steps)


def number(steps: list[Step], first: int = 0) -> None:
    """Gives each step its number, from 1 within the main line and within the rollback."""
    at = {"": max(first, 0), "rollback": 0}
    for step in steps:
        at[step.branch] += 1
        step.number = at[step.branch]


def _open_texts(view: View) -> None:
    """The cloud gives outputs as JSON text, long ones cut short: whole ones are opened."""
    view.output = opened(view.output)
    for step in view.steps:
        step.output = opened(step.output)


def opened(value: Any) -> Any:
    """The value inside a JSON text of an object or array; any other value as it is."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        made, odd = wire.decode(value.encode("utf-8"))
    except (wire.MalformedLine, UnicodeEncodeError):
        return value
    return value if odd or made is wire.MISSING else made


def cut(value: Any) -> bool:
    """Whether a text of the cloud's form is the beginning of a JSON text that goes on."""
    return isinstance(value, str) and value[:1] in ("{", "[") and opened(value) is value
