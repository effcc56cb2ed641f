"""The build file: what CI registers under a label. Pure: bytes or decoded JSON in, `Described` out.

Shape: docs/build-file.schema.json. A prompt's digest is SHA-256 over its UTF-8 text, newlines as they are. A tool's digest
is SHA-256 over RFC 8785 canonical JSON of `{"description", "schema"}`, of which the absent one is left out; so a changed
description is a changed tool, and the order of keys changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from drainboard import wire

from versioning.mismatch import ANY_ROLE, Versions, versions_of

COMPONENTS: Final = ("app", "sdk", "prompts", "models", "tools")
MAX_BYTES: Final = 16 * 1024 * 1024


class BadBuildFile(ValueError):
    """The build file cannot be read; the message names the field and what it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A build as it is to be registered. `body` holds only the components that were stated, with their digests."""

    agent: str
    label: str
    body: Mapping[str, Any]
    replaces: str = ""

    @property
    def digest(self) -> str:
        """`sha256:…` over the canonical form of `body`."""
        return wire.digest(self.body)


def read(raw: bytes) -> Described:
    """The build that a file describes. Raises `BadBuildFile`."""
    if len(raw) > MAX_BYTES:
        raise BadBuildFile(f"the build file has {len(raw)} bytes; at most {MAX_BYTES} are taken")
    try:
        value, odd = wire.decode(raw)
    except wire.MalformedLine as e:
        raise BadBuildFile(f"the build file is {e}") from None
    if odd:
        raise BadBuildFile(f"the build file has more than one reading: {', '.join(odd)}")
    return describe(value)


def describe(value: Any) -> Described:
    """The build that this decoded JSON object describes. Raises `BadBuildFile`."""
    if not isinstance(value, Mapping):
        raise BadBuildFile("a build file holds one JSON object")
    body: dict[str, Any] = {name: _text(value, name) for name in ("app", "sdk") if value.get(name) is not None}
    for name, part in (("prompts", _prompt), ("models", _model), ("tools", _tool)):
        got = _either(value, name)
        if got is not None:
            body[name] = {key: part(f"{name}.{key}", one) for key, one in _object(got, name).items()}
    return _storable(
        Described(
            agent=_text(value, "agent"),
            label=_text(value, "label"),
            body=body,
            replaces=_text(value, "replaces") if value.get("replaces") else "",
        )
    )


def described_by_worker(*, agent: str, label: str, versions: Mapping[str, Any]) -> Described:
    """The build that a worker opens runs with: versions in the form of an entry, without texts and schemas."""
    v = versions_of(versions)
    body: dict[str, Any] = {name: got for name, got in (("app", v.app), ("sdk", v.sdk)) if got is not None}
    if v.prompts is not None:
        body["prompts"] = {name: {"version": version} for name, version in v.prompts.items()}
    if v.models is not None:
        body["models"] = {role: {"id": model} for role, model in v.models.items()}
    if v.tools is not None:
        body["tools"] = {name: {"sha256": digest} for name, digest in v.tools.items()}
    return _storable(Described(agent=agent, label=label, body=body))


def versions_in(body: Mapping[str, Any]) -> Versions:
    """The versions that a registered body states."""
    prompts, models, tools = body.get("prompts"), body.get("models"), body.get("tools")
    return Versions(
        app=body.get("app"),
        sdk=body.get("sdk"),
        prompts=None if prompts is None else {name: got["version"] for name, got in prompts.items()},
        models=None if models is None else {role: got["id"] for role, got in models.items()},
        tools=None if tools is None else {name: got["sha256"] for name, got in tools.items()},
    )


def retirements_in(body: Mapping[str, Any]) -> dict[str, date]:
    """Model id -> retirement day, the earliest where two roles differ."""
    made: dict[str, date] = {}
    for got in (body.get("models") or {}).values():
        if got.get("retires_on"):
            day = date.fromisoformat(got["retires_on"])
            made[got["id"]] = min(day, made.get(got["id"], day))
    return made


def contradictions(body: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Sentences on each component that both bodies state, with other contents; none when they can be the same build."""
    found: list[str] = []
    for name in COMPONENTS:
        one, two = body.get(name), other.get(name)
        if one is None or two is None or one == two:
            continue
        if isinstance(one, str):
            found.append(f"{name} is {one}, here it is {two}")
        elif not (name == "models" and _same_bare_model(one, two)):
            found.extend(_part_contradictions(name, one, two))
    return found


def _part_contradictions(name: str, one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*one, *two}):
        a, b = one.get(key), two.get(key)
        if a is None or b is None:
            yield f"{name}.{key} is {'absent' if a is None else 'there'}, here it is {'absent' if b is None else 'there'}"
        elif different := sorted(k for k in a.keys() & b.keys() if a[k] != b[k]):
            yield f"{name}.{key} differs in {', '.join(different)}"


def _same_bare_model(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Whether one side names a bare id that the other side has in some role."""
    return any(
        set(bare) == {ANY_ROLE} and bare[ANY_ROLE]["id"] in {got["id"] for got in other.values()}
        for bare, other in ((one, two), (two, one))
    )


def merged(body: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`body` with what it leaves open filled from `more`; the two must not contradict each other."""
    made = dict(body)
    for name in COMPONENTS:
        one, two = body.get(name), more.get(name)
        if two is None:
            continue
        if one is None or (name == "models" and two and ANY_ROLE in one and ANY_ROLE not in two):
            made[name] = two
        elif isinstance(one, Mapping):
            made[name] = {key: {**two[key], **got} if key in two else got for key, got in one.items()}
    return made


def tool_digest(*, schema: Any = None, description: str | None = None) -> str:
    """The digest of a tool that models are offered."""
    subject = {"description": description, "schema": schema}
    return wire.digest({name: got for name, got in subject.items() if got is not None})


def _storable(made: Described) -> Described:
    subject = {**made.body, "agent": made.agent, "label": made.label}
    try:
        wire.canonical(subject)
    except wire.Ambiguous as e:
        raise BadBuildFile(f"the build has no digest: {e}") from None
    if _holds_nul(subject):
        raise BadBuildFile("the build holds a NUL character, which cannot be stored")
    return made


def _holds_nul(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_nul(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, tuple)):
        return any(_holds_nul(part) for part in value)
    return isinstance(value, str) and "\x00" in value


def _either(value: Mapping[str, Any], name: str) -> Any:
    """`prompts`, or its short form `prompt`: `name@version` or a mapping; likewise `models` and `model`."""
    short = name.removesuffix("s")
    if name == "tools" or short not in value:
        return value.get(name)
    if value.get(name) is not None:
        raise BadBuildFile(f"both {name} and {short} are given; give one of them")
    got = value[short]
    if isinstance(got, str):
        return {"main": got} if name == "models" else versions_of({"prompt": got}).prompts
    return got


def _prompt(where: str, got: Any) -> dict[str, Any]:
    part = _object({"version": got} if isinstance(got, str) else got, where)
    text, digest = part.get("text"), part.get("sha256")
    made: dict[str, Any] = {}
    if text is not None:
        made["text"] = _text(part, "text", where, empty=True)
        try:
            made["sha256"] = wire.digest_bytes(made["text"].encode("utf-8"))
        except UnicodeEncodeError:
            raise BadBuildFile(f"{where}.text holds a lone surrogate, so it has no digest") from None
    if digest is not None:
        if _prefixed(_text(part, "sha256", where)) != made.get("sha256", _prefixed(digest)):
            raise BadBuildFile(f"{where}.sha256 is {digest}, but its text has {made['sha256']}")
        made["sha256"] = _prefixed(digest)
    if part.get("version") is None and made:
        return {"version": made["sha256"], **made}  # a prompt without a version is known by its text
    return {"version": _text(part, "version", where), **made}


def _model(where: str, got: Any) -> dict[str, Any]:
    part = _object({"id": got} if isinstance(got, str) else got, where)
    made = {"id": _text(part, "id", where)}
    if part.get("retires_on") is not None:
        try:
            made["retires_on"] = date.fromisoformat(_text(part, "retires_on", where)[:10]).isoformat()
        except ValueError:
            raise BadBuildFile(f"{where}.retires_on is {part['retires_on']!r}; give a date as 2026-08-15") from None
    return made


def _tool(where: str, got: Any) -> dict[str, Any]:
    part = _object({"sha256": got} if isinstance(got, str) else got, where)
    made = {name: part[name] for name in ("schema", "description") if part.get(name) is not None}
    if "description" in made:
        _text(part, "description", where, empty=True)
    if part.get("sha256") is not None:
        return {**made, "sha256": _text(part, "sha256", where)}  # any string: what the runs record
    if not made:
        raise BadBuildFile(f"{where} has neither schema, description nor sha256, so it cannot be compared")
    try:
        return {**made, "sha256": tool_digest(schema=made.get("schema"), description=made.get("description"))}
    except wire.Ambiguous as e:
        raise BadBuildFile(f"{where} has no digest: {e}") from None


def _prefixed(digest: str) -> str:
    return digest if digest.startswith("sha256:") else f"sha256:{digest}"


def _object(got: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(got, Mapping):
        raise BadBuildFile(f"{where} must be an object, not {type(got).__name__}")
    return got


def _text(holder: Mapping[str, Any], name: str, where: str = "", *, empty: bool = False) -> str:
    got = holder.get(name)
    path = f"{where}.{name}" if where else name
    if not isinstance(got, str) or not (got or empty):
        raise BadBuildFile(f"{path} is {'missing' if got is None else 'not a text with at least one character'}")
    return got
