"""Which prompt, model and tools a run of Temporal recorded: memo, search attributes, and inputs and results of model calls.

The build is the worker's: `deploymentVersion.buildId`, else `workerVersion.buildId`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from drainboard import wire
from drainboard.versions import tool_digest

from journals.adapters.temporal.names import arguments
from journals.adapters.temporal.values import dict_of, text_of

_NAMES: Final = {
    "prompt": frozenset(("prompt", "promptversion", "promptid")),
    "model": frozenset(("model", "modelid", "modelname", "modelversion")),
    "tools": frozenset(("toolschema", "toolschemaversion", "toolschemas", "toolsversion")),
}
_INPUT_NAMES: Final = {
    "prompt": frozenset(("promptversion", "promptid")),
    "model": frozenset(("model", "modelid", "modelname")),
    "tools": frozenset(("toolschema", "toolschemaversion", "toolsversion")),
}
_SCHEMAS: Final = ("params_json_schema", "parameters", "input_schema", "inputSchema", "schema")
_ALIASES: Final = frozenset(["live", "latest", "current", "default", "prod", "production", "stable"])
"""Words that say which version is wanted and not which one ran; what ran may stand in the answer."""
_LONGEST: Final = 200  # characters; a longer text is a prompt itself, not the name of a version
_COMPONENTS: Final = ("app", "prompt", "model", "tools", "sdk")


def of_attributes(memo: Any, search: Any, given: Any) -> dict[str, Any]:
    """What the start of a run, or a change of its search attributes, says; `given` is the run's input."""
    made: dict[str, Any] = {}
    for source, names in ((dict_of(given), _INPUT_NAMES), (dict_of(memo), _NAMES), (dict_of(search), _NAMES)):
        made.update(_named(source, names))
    return made


def of_model_input(given: Any, summary: str) -> dict[str, Any]:
    """What the request of a model call says. Schemas and full instructions become digests."""
    made: dict[str, Any] = {}
    for arg in arguments(given):
        made.update(_named(arg, _INPUT_NAMES))
        instructions = text_of(arg.get("system_instructions") or arg.get("systemInstructions"))
        if instructions and "prompt" not in made:
            made["prompt"] = {
                summary or "system_instructions": wire.digest_bytes(instructions.encode("utf-8", "surrogatepass"))
            }
        tools = _tools(arg.get("tools"))
        if tools:
            made["tools"] = tools
    return made


def of_model_output(out: Any) -> dict[str, Any]:
    """What the answer says about its prompt: one that was looked up inside the activity shows only here."""
    made = _named(dict_of(out), {"prompt": _INPUT_NAMES["prompt"]})
    return made


def reported_model(out: Any) -> str | None:
    """The model that answered, where the answer names it."""
    found = dict_of(out)
    return next((found[k] for k in ("model", "model_id", "modelId", "model_name") if text_of(found.get(k))), None)


def build_of(attributes: Mapping[str, Any]) -> str:
    """The build of the worker that wrote an event; "" when it is not recorded."""
    for place in ("deploymentVersion", "workerVersion"):
        build = text_of(dict_of(attributes.get(place)).get("buildId"))
        if build:
            return build
    return ""


def sdk_of(attributes: Mapping[str, Any]) -> str:
    """`temporal-python 1.35.0`; the runtime records it only when it changes."""
    found = dict_of(attributes.get("sdkMetadata"))
    return " ".join(text_of(found.get(k)) for k in ("sdkName", "sdkVersion") if text_of(found.get(k)))


def stated(**parts: Any) -> dict[str, Any]:
    """Versions without the parts that nobody stated, in the documented order."""
    return {name: parts[name] for name in _COMPONENTS if parts.get(name)}


def _named(source: Mapping[str, Any], names: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for field, value in source.items():
        plain = re.sub(r"[^a-z0-9]", "", field.lower())
        for component, known in names.items():
            if plain in known and isinstance(value, str) and 0 < len(value) <= _LONGEST:
                made[component] = _version(component, value)
    return made


def _version(component: str, value: str) -> Any:
    """The version that the text names; None, which outweighs what was known before, for a word like `latest`."""
    if value.lower() in _ALIASES:
        return None
    return _bundle(value) if component == "tools" else value


def _bundle(value: str) -> dict[str, str]:
    """A version that stands for all tools together: `tools@5` is the version of `tools`."""
    return {value.rpartition("@")[0] or "tools": value}


def _tools(value: Any) -> dict[str, str]:
    """Name to digest of the tools that were offered to a model."""
    made = {}
    for tool in value if isinstance(value, list) else []:
        tool = dict_of(dict_of(tool).get("function")) or dict_of(tool)
        name = text_of(tool.get("name"))
        if name:
            made[name] = _digest(tool)
    return made


def _digest(tool: Mapping[str, Any]) -> str:
    schema = next((tool[k] for k in _SCHEMAS if tool.get(k) is not None), None)
    try:
        if schema is None:
            return wire.digest(dict(tool))
        return tool_digest(schema=schema, description=text_of(tool.get("description")) or None)
    except wire.Ambiguous:
        return wire.digest_bytes(wire.encode(dict(tool)))
