"""Versions that a Restate run names: in its deployment, its service, its input, its state, and what its model steps answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from journals.adapters.names import version_shape, versions_at
from journals.adapters.restate.runs import Snapshot, moment
from journals.adapters.values import text

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "app": ("/metadata/git_sha", "/metadata/app_version", "/metadata/version", "/service/git_sha"),
    "prompt": ("/metadata/prompt_version", "/metadata/prompt", "/service/prompt_version", "/in/prompt_version"),
    "model": ("/metadata/model", "/service/model", "/in/model"),
    "tools": ("/metadata/tool_schema", "/metadata/tools", "/service/tool_schema", "/service/tools"),
    "sdk": ("/sdk_version",),
}
"""JSON pointers into `{deployment_id, metadata, service, sdk_version, in}`: the deployment, the metadata of the run's own
service, and the run's input. A deployment's id is no version: it stays when its code changes."""

STATE: Final = {"prompt_version": "prompt", "model": "model", "tool_schema": "tools"}
"""Keys of a virtual object's state by which agents keep their versions."""


def versions_of(snapshot: Snapshot, given: Any) -> dict[str, Any]:
    """The versions that a run started under. What a deployment says after it was registered anew is not the run's."""
    document: dict[str, Any] = {
        "deployment_id": text(snapshot.fields, "pinned_deployment_id"),
        "in": given if isinstance(given, Mapping) else {},
    }
    if not replaced(snapshot):
        facts = snapshot.deployment
        document["sdk_version"] = facts.get("sdk_version")
        document["metadata"] = _opened(facts.get("metadata"))
        document["service"] = _opened(_service(snapshot).get("metadata"))
    return versions_at(document, PLACES)


def replaced(snapshot: Snapshot) -> bool:
    """Whether the run's deployment was registered anew after the run had begun: Restate keeps its id and its address, and
    takes new code and new metadata."""
    made = moment(text(snapshot.deployment, "created_at"))
    begun = moment(text(snapshot.fields, "running_at") or text(snapshot.fields, "created_at"))
    return made is not None and begun is not None and made > begun


def deployment_facts(snapshot: Snapshot) -> dict[str, Any] | None:
    """What the export says about the pinned deployment at its own moment."""
    facts = snapshot.deployment
    if not facts:
        return None
    made = {
        "id": facts.get("id"),
        "uri": facts.get("uri") or facts.get("endpoint"),
        "registered_at": facts.get("created_at"),
        "metadata": facts.get("metadata"),
        "revision": _service(snapshot).get("revision"),
        "registered_anew_since_the_run_began": replaced(snapshot) or None,
    }
    return {k: v for k, v in made.items() if v is not None}


def _service(snapshot: Snapshot) -> Mapping[str, Any]:
    services = snapshot.deployment.get("services")
    wanted = text(snapshot.fields, "target_service_name")
    for found in services if isinstance(services, list) else ():
        if isinstance(found, Mapping) and found.get("name") == wanted:
            return found
    return {}


def _opened(metadata: Any) -> dict[str, Any]:
    """Metadata holds texts only; a map of tools stands in it as JSON."""
    made: dict[str, Any] = {}
    for key, value in metadata.items() if isinstance(metadata, Mapping) else ():
        made[str(key)] = value
        if isinstance(value, str) and value.startswith("{"):
            try:
                made[str(key)] = json.loads(value)
            except (ValueError, RecursionError):
                continue  # a text that only looks like JSON
    return made


def state_versions(key: str, value: Any) -> dict[str, Any] | None:
    """The version that a written state is."""
    component = STATE.get(key)
    shaped = version_shape(component, value) if component else None
    return {component: shaped} if component and shaped else None


def model_said(out: Any) -> dict[str, Any]:
    """Versions, `model_reported` and `usage` out of a model step's answer."""
    if not isinstance(out, Mapping):
        return {}
    places = {"prompt": ("/prompt_version",), "tools": ("/tool_schema",)}
    return {
        "versions": versions_at(out, places) or None,
        "model_reported": text(out, "model") or text(out, "model_name"),
        "usage": out.get("usage"),
    }
