"""Finds instances, log rows and list items in JSON files at any depth, and whole records behind damaged ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drainboard import wire

from journals.adapters.jsonscan import Value, value_end

_TRIES: Final = 16  # false starts looked at behind one damage; each may cost a look at the rest of the file
_ENVELOPE: Final = frozenset(("success", "errors", "messages", "result_info"))  # around every answer of the API
_OTHER: Final = re.compile(rb'"(?:steps|step_count|queued|instance|binding instance\.status\(\))"\s*:')
"""Members that stand outside of every record: behind one of them the records are those of another instance."""

_RECORD: Final = re.compile(rb'\{\s*"(?:name|type|id|timestamp|event|groupKey|target|metadata|start)"\s*:')


@dataclass(slots=True, kw_only=True)
class Stretch:
    """One record of an array, or (`problem`) a stretch of it that is none."""

    value: Value
    fields: Any = None
    oddities: tuple[str, ...] = ()
    problem: str = ""
    torn: bool = False  # the file ends inside it


def records(array: Value, wanted: Callable[[Any], bool | None]) -> Iterator[Stretch]:
    """The elements of an array in order. Behind a damaged one reading goes on at the next record of the same array.

    `wanted` says whether an object is such a record; None: it belongs to another array, so this one is over.
    """
    at, n, end = 0, 0, array.start + 1
    while True:
        broken: Value | None = None
        for element in array.elements(at, n):
            stretch = _loaded(element)
            if element.torn or stretch.problem:
                broken = element
                break
            end, n = element.end, n + 1
            yield stretch
        rest = broken or Value(array.data, end, array.end, f"{array.pointer}/{n}")
        left = rest.raw.lstrip(b" \t\r\n,")
        if broken is None and left[:1] == b"]":
            return
        if not left:
            yield Stretch(value=rest, problem="the file ends inside the list of records", torn=True)
            return
        # Damaged brackets may have closed the array too early: what follows is looked for up to the end of the file.
        whole = Value(array.data, array.start, len(array.data), array.pointer, True)
        found = _next(whole, rest.start + 1, wanted)
        if found is None:
            problem = "the file ends inside this record" if array.torn else "damaged: no whole record"
            yield Stretch(value=rest, problem=problem, torn=array.torn)
            return
        yield Stretch(value=Value(array.data, rest.start, found, rest.pointer), problem="damaged: no whole record")
        array, at, n, end = whole, found, n + 1, found


def _loaded(value: Value) -> Stretch:
    try:
        fields, odd = value.load()
    except wire.MalformedLine:
        return Stretch(value=value, problem="damaged: no JSON")
    return Stretch(value=value, fields=fields, oddities=odd)


def _next(array: Value, at: int, wanted: Callable[[Any], bool | None]) -> int | None:
    """Where the next wanted record begins; None when another array begins before it, or after too many false starts."""
    tries = 0
    over = _OTHER.search(array.data, at, array.end)
    for start in _RECORD.finditer(array.data, at, over.start() if over else array.end):
        end = value_end(array.data, start.start(), array.end)
        stretch = _loaded(Value(array.data, start.start(), end)) if end >= 0 else None
        said = wanted(stretch.fields) if stretch is not None and not stretch.problem else False
        if said:
            return start.start()
        if said is None:
            return None
        tries += stretch is None
        if tries >= _TRIES:
            return None
    return None


@dataclass(slots=True, kw_only=True)
class Found:
    """Something of Cloudflare in a file: `answer`, `rows`, `item`, `binding` or `error`."""

    kind: str
    value: Value
    instance: str  # what an object around it says about the instance's id
    near: str  # pointer of the object in which it stands


def find(value: Value, kind_of: Callable[[Value, Mapping[str, Value]], str], others: list[str]) -> Iterator[Found]:
    """The outermost known shapes in a document, in order; members that are none are added to `others` by their pointer."""
    yield from _find(value, kind_of, others, "", "", 8)


def _find(
    value: Value,
    kind_of: Callable[[Value, Mapping[str, Value]], str],
    others: list[str],
    instance: str,
    near: str,
    levels: int,
) -> Iterator[Found]:
    members: dict[str, Value] = {}
    if value.form == "{":
        for name, member in value.members():
            members.setdefault(name, member)
    kind = kind_of(value, members)
    if kind:
        yield Found(kind=kind, value=value, instance=instance, near=near)
        return
    if value.form not in ("{", "[") or not levels:
        others.append(value.pointer)
        return
    if value.form == "{":
        instance = _named(members) or instance
        near = (value.pointer or "/") if _named(members) else near
    before = len(others)
    any_found = False
    envelope = _ENVELOPE if "result" in members and "success" in members else frozenset()
    inside = (v for k, v in members.items() if k not in envelope) if value.form == "{" else value.elements()
    for inner in inside:
        if inner.form in ("{", "["):
            for found in _find(inner, kind_of, others, instance, near, levels - 1):
                any_found = True
                yield found
        else:
            others.append(inner.pointer)
    if not any_found:
        del others[before:]
        others.append(value.pointer)


def _named(members: Mapping[str, Value]) -> str:
    """The instance id that an object tells beside its answers."""
    for name in ("instance", "instanceId", "instance_id"):
        member = members.get(name)
        if member is not None and member.form == '"' and not member.torn:
            try:
                got, _ = member.load()
            except wire.MalformedLine:
                continue
            if isinstance(got, str):
                return got
    return ""
