"""The versions that an agent's build holds, in the form that steps record and the server compares.

A build file is `{"agent", "label", "app", "sdk", "prompts": {name: {"version", "text"?, "sha256"?}}, "models": {role:
{"id", "retires_on"?}}, "tools": {name: {"schema"?, "description"?, "sha256"?}}}`. In code the short forms are welcome too:
`prompts={"refund": "7"}` or `prompt="refund@7"`, `models={"main": "some-model-1"}`, `tools={"send_refund": "sha256:…"}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drainboard import wire
from drainboard.errors import BadVersions

__all__ = ["Versions", "tool_digest"]

_KNOWN = frozenset({"agent", "label", "app", "sdk", "prompt", "prompts", "model", "models", "tools", "replaces"})


@dataclass(frozen=True)
class Versions:
    """Normalised versions; parts that nobody stated stay empty and are then not recorded."""

    app: str | None = None
    sdk: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)  # name -> version
    models: Mapping[str, str] = field(default_factory=dict)  # role -> id
    tools: Mapping[str, str] = field(default_factory=dict)  # name -> digest
    build: Mapping[str, Any] = field(default_factory=dict)  # the build file's form, as given; for registering

    @staticmethod
    def of(given: Versions | Mapping[str, Any] | str | Path | None) -> Versions:
        """Versions out of a build file's path, its contents, or a short form. Raises `BadVersions`."""
        if given is None:
            return Versions()
        if isinstance(given, Versions):
            return given
        if isinstance(given, (str, Path)):
            given = _load(Path(given))
        if not isinstance(given, Mapping):
            raise BadVersions(f"versions are a {type(given).__name__}; give a mapping or the path of a build file")
        unknown = sorted(set(given) - _KNOWN)
        if unknown:
            raise BadVersions(f"versions have no part {unknown[0]!r}; the parts are {', '.join(sorted(_KNOWN))}")
        return Versions(
            app=_text(given, "app"),
            sdk=_text(given, "sdk"),
            prompts=_named(_either(given, "prompts", "prompt"), "prompts", _prompt),
            models=_named(_either(given, "models", "model"), "models", _model),
            tools=_named(given.get("tools"), "tools", _tool),
            build=dict(given),
        )

    def for_model(self, *, prompt: str | None = None, role: str | None = None) -> dict[str, Any]:
        """What a model step records: every prompt and model of the build, or the one named."""
        return _stated(
            app=self.app,
            prompt=_one(self.prompts, prompt, "prompt"),
            model=_one(self.models, role, "model"),
            sdk=self.sdk,
        )

    def for_tool(self, name: str) -> dict[str, Any]:
        """What a tool step records: the digest of its own schema."""
        return _stated(app=self.app, tools={name: self.tools[name]} if name in self.tools else {}, sdk=self.sdk)

    def as_json(self) -> dict[str, Any]:
        """Every part at once, as the server is told when a run is opened."""
        return _stated(
            app=self.app, prompt=dict(self.prompts), model=dict(self.models), tools=dict(self.tools), sdk=self.sdk
        )


def tool_digest(*, schema: Any = None, description: str | None = None) -> str:
    """SHA-256 over the canonical JSON of a tool's schema and description; a changed description is a changed tool."""
    subject = {"description": description, "schema": schema}
    return wire.digest({name: got for name, got in subject.items() if got is not None})


def _load(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise BadVersions(f"build file {path}: {e.strerror}") from None
    except ValueError as e:
        raise BadVersions(f"build file {path} is not JSON: {e}") from None
    if not isinstance(found, dict):
        raise BadVersions(f"build file {path} holds no JSON object")
    return found


def _stated(**parts: Any) -> dict[str, Any]:
    return {name: got for name, got in parts.items() if got not in (None, {}, "")}


def _one(found: Mapping[str, str], name: str | None, what: str) -> dict[str, str]:
    if name is None:
        return dict(found)
    if name not in found:
        raise BadVersions(f"the versions have no {what} {name!r}; they have {', '.join(sorted(found)) or 'none'}")
    return {name: found[name]}


def _text(given: Mapping[str, Any], part: str) -> str | None:
    got = given.get(part)
    if got is not None and not isinstance(got, str):
        raise BadVersions(f"`{part}` is a {type(got).__name__}; give text")
    return got


def _either(given: Mapping[str, Any], many: str, one: str) -> Any:
    if many in given and one in given:
        raise BadVersions(f"both `{many}` and `{one}` are given; give one of them")
    return given.get(many, given.get(one))


def _named(got: Any, part: str, read: Any) -> dict[str, str]:
    if got is None:
        return {}
    if isinstance(got, str):
        got = dict([_whole(got, part)])
    if not isinstance(got, Mapping):
        raise BadVersions(f"`{part}` is a {type(got).__name__}; give a mapping from names")
    made = {}
    for name, value in got.items():
        found = value if isinstance(value, str) else read(value) if isinstance(value, Mapping) else None
        if not isinstance(name, str) or not isinstance(found, str) or not found:
            raise BadVersions(f"`{part}` → {name!r} states no version")
        made[name] = found
    return made


def _whole(got: str, part: str) -> tuple[str, str]:
    if part == "prompts":
        name, at, version = got.rpartition("@")
        return (name, version) if at and name else (got, got)
    if part == "models":
        return "main", got
    raise BadVersions(f"`{part}` is text; give a mapping from names")


def _prompt(value: Mapping[str, Any]) -> Any:
    if value.get("version"):
        return value["version"]
    if value.get("sha256"):
        return value["sha256"]
    text = value.get("text")
    return wire.digest_bytes(text.encode("utf-8")) if isinstance(text, str) else None


def _model(value: Mapping[str, Any]) -> Any:
    return value.get("id")


def _tool(value: Mapping[str, Any]) -> Any:
    digest = value.get("sha256")
    if isinstance(digest, str):
        return digest
    if value.get("schema") is None and value.get("description") is None:
        return None
    return tool_digest(schema=value.get("schema"), description=value.get("description"))
