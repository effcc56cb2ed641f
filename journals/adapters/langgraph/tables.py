"""From rows of LangGraph's tables to checkpoints and tasks. What a checkpoint starts is read off its channel versions; no graph
code is needed. Postgres keeps channel values in `checkpoint_blobs`, SQLite inside the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from drainboard import wire

from journals.adapters.langgraph.forms import BLOBS, CHECKPOINTS, NOBODY, WRITES, Checkpoint, Row, Task
from journals.adapters.langgraph.values import sendable, value_of
from journals.adapters.values import integer, text

Key = tuple[str, str, str]  # thread, checkpoint_ns, checkpoint_id
Blobs = Mapping[tuple[str, str, str, str], Row]
_HIDDEN: Final = ("branch:", "join:", "start:", "__")
_SENDS: Final = "__pregel_tasks"


def checkpoints_of(rows: Sequence[Row]) -> list[Checkpoint]:
    """The checkpoints of one export, each with the tasks that started from it; writes without a checkpoint make one of their own."""
    blobs: dict[tuple[str, str, str, str], Row] = {}
    made: dict[Key, Checkpoint] = {}
    again: list[Checkpoint] = []
    for row in rows:
        if row.table == BLOBS:
            blobs[_place(row)[0], _place(row)[1], row.fields["channel"], str(row.fields.get("version"))] = row
    for row in rows:
        if row.table == CHECKPOINTS:
            checkpoint = _checkpoint(row)
            _find_due(checkpoint, blobs, apart=row.fields.get("type") is None)
            if made.setdefault(_place(row), checkpoint) is not checkpoint:
                again.append(checkpoint)
    for row in rows:
        if row.table in WRITES:
            key = _place(row)
            if key not in made:
                made[key] = Checkpoint(*key, None, None, {}, row.path, row.record, due_known=False, orphan=True)
            _write(made[key], row, blobs)
    for checkpoint in made.values():
        _name_sends(checkpoint)
        _find_input(checkpoint, blobs)
    return [*made.values(), *again]


def _place(row: Row) -> Key:
    return row.fields["thread_id"], text(row.fields, "checkpoint_ns") or "", text(row.fields, "checkpoint_id") or ""


def _checkpoint(row: Row) -> Checkpoint:
    form = text(row.fields, "type")
    body = value_of(form, row.fields.get("checkpoint"))
    about = value_of(
        "json" if isinstance(row.fields.get("metadata"), (str, bytes)) else None, row.fields.get("metadata")
    )
    if isinstance(about, Mapping) and "opaque" in about:
        about = value_of(form, row.fields.get("metadata"))
    body = body if isinstance(body, Mapping) else {}
    return Checkpoint(
        *_place(row),
        text(row.fields, "parent_checkpoint_id"),
        text(body, "ts"),
        about if isinstance(about, Mapping) else {},
        row.path,
        row.record,
        due_known="channel_versions" in body,
        values=_mapping(body, "channel_values"),
        channel_versions=_mapping(body, "channel_versions"),
        versions_seen=_mapping(body, "versions_seen"),
    )


def _mapping(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    got = fields.get(name)
    return got if isinstance(got, Mapping) else {}


def channel(checkpoint: Checkpoint, name: str, blobs: Blobs) -> Any:
    """A channel's value at a checkpoint; `wire.MISSING` when it has none."""
    if name in checkpoint.values:
        return checkpoint.values[name]
    version = str(checkpoint.channel_versions.get(name))
    row = blobs.get((checkpoint.thread, checkpoint.ns, name, version))
    if row is None or row.fields.get("type") == "empty":
        return wire.MISSING
    return value_of(text(row.fields, "type"), row.fields.get("blob"))


def _find_due(checkpoint: Checkpoint, blobs: Blobs, *, apart: bool) -> None:
    """The nodes that the checkpoint starts: those whose trigger was written after they last ran, by name; then the Sends, in
    order. `apart`: channel values are kept in a table of their own; what needs one that is not there cannot be known."""
    names: set[str] = set()
    for name, version in checkpoint.channel_versions.items():
        node = _triggered(name)
        if not node or not _unseen(checkpoint, node, name, version):
            continue
        if name.startswith(("branch:to:", "start:")):
            if name in checkpoint.values:
                names.add(node)
        elif not name.startswith("join:") or _joined(name, channel(checkpoint, name, blobs)):
            names.add(node)
        elif apart and _lost(checkpoint, name, blobs):
            checkpoint.due_known = False
    checkpoint.due = [(node, None) for node in sorted(names)]
    if _SENDS in checkpoint.channel_versions:
        checkpoint.due_known = checkpoint.due_known and not (apart and _lost(checkpoint, _SENDS, blobs))
        sent = channel(checkpoint, _SENDS, blobs)
        sends = [sendable(item) for item in sent] if isinstance(sent, list) else []
        checkpoint.due += [(send[0] if send else "", i) for i, send in enumerate(sends)]


def _lost(checkpoint: Checkpoint, name: str, blobs: Blobs) -> bool:
    """Whether the row of a channel's value is not in the export; an empty channel has one too."""
    version = str(checkpoint.channel_versions.get(name))
    return name not in checkpoint.values and (checkpoint.thread, checkpoint.ns, name, version) not in blobs


def _triggered(channel_name: str) -> str:
    """The node that a channel triggers (`branch:to:X`, `start:X`, `join:A+B:X`, older `branch:FROM:NAME:X`); empty for none."""
    if channel_name.startswith("branch:to:"):
        return channel_name[len("branch:to:") :]
    if channel_name.startswith("start:"):
        return channel_name[len("start:") :]
    if channel_name.startswith(("branch:", "join:")) and channel_name.count(":") >= 2:
        return channel_name.rsplit(":", 1)[1]
    return ""


def _unseen(checkpoint: Checkpoint, node: str, name: str, version: Any) -> bool:
    return str(version) != str(_mapping(checkpoint.versions_seen, node).get(name))


def _joined(name: str, value: Any) -> bool:
    """Whether all the nodes that a join waits for have come."""
    wanted = set(name[len("join:") :].rsplit(":", 1)[0].split("+"))
    return isinstance(value, list) and wanted <= {item for item in value if isinstance(item, str)}


def _write(checkpoint: Checkpoint, row: Row, blobs: Blobs) -> None:
    fields, name = row.fields, row.fields["channel"]
    task = checkpoint.tasks.get(fields["task_id"])
    if task is None:
        task = checkpoint.tasks[fields["task_id"]] = Task(fields["task_id"], record=row.record, file=row.path)
    task.rows += 1
    path = text(fields, "task_path") or ""
    if path and not task.path:
        task.path = path
        task.name, task.push = _named(path)
    value = value_of(text(fields, "type"), fields.get("blob", fields.get("value")))
    if name == "__interrupt__":
        task.interrupts += value if isinstance(value, list) else [value]
    elif name == "__resume__":
        task.resumed += value if isinstance(value, list) and task.id != NOBODY else [value]
    elif name == "__error__":
        task.error = value
    else:
        _result(task, name, value, integer(fields, "idx"))


def _result(task: Task, name: str, value: Any, index: int | None) -> None:
    """A write of the node: its channels make the result. Triggers and marks say only that it ended, and what comes next."""
    if not task.done:
        task.result = {}
    if name == "__return__":
        task.result["return"] = value
    elif name.startswith(_HIDDEN):
        send = sendable(value) if name == _SENDS else None
        if send is not None:
            task.follows.append((send[0], len(task.follows)))
        elif not name.startswith("join:") and (node := _triggered(name)):
            task.follows.append((node, None))
    elif name not in task.result:
        task.result[name] = value
    else:
        task.result[f"{name}#{index}"] = value


def _named(path: str) -> tuple[str, int | None]:
    """Name and Send place out of a `task_path`: `~__pregel_pull, NODE`, `~__pregel_push, 0000000002, …`."""
    parts = path.removeprefix("~").split(", ")
    if parts[0] == "__pregel_pull":
        return ", ".join(parts[1:]), None
    if parts[0] == "__pregel_push" and len(parts) > 1 and parts[1].isdigit():
        return "", int(parts[1][:12])
    return "", None


def _name_sends(checkpoint: Checkpoint) -> None:
    sent = {push: node for node, push in checkpoint.due if push is not None}
    for task in checkpoint.tasks.values():
        if task.push is not None and not task.name:
            task.name = sent.get(task.push, "")


def name_alone(checkpoint: Checkpoint, finished: Iterable[str]) -> None:
    """Old SQLite layouts store no task path: a task is named when it is the only one, and one node ran from its checkpoint."""
    unnamed = [t for t in checkpoint.tasks.values() if not t.name and not t.path and t.id != NOBODY and t.push is None]
    names = list(dict.fromkeys([*(n for n, p in checkpoint.due if p is None), *finished]))
    if checkpoint.is_input:
        names = ["__start__"]
    if len(unnamed) == 1 and len(names) == 1:
        unnamed[0].name = names[0]


def _find_input(checkpoint: Checkpoint, blobs: Blobs) -> None:
    if checkpoint.is_input and not checkpoint.orphan:
        checkpoint.given = channel(checkpoint, "__start__", blobs)


def looked_up(checkpoints: Iterable[Checkpoint], rows: Iterable[Row]) -> None:
    """Puts into each checkpoint the messages that its tool tasks started from: their arguments stand in the call before."""
    blobs = {
        (*_place(row)[:2], row.fields["channel"], str(row.fields.get("version"))): row
        for row in rows
        if row.table == BLOBS
    }
    for checkpoint in checkpoints:
        wanted = {
            name
            for task in checkpoint.tasks.values()
            if task.done
            for name, value in task.result.items()
            if any(
                isinstance(m, Mapping) and m.get("tool_call_id")
                for m in (value if isinstance(value, list) else [value])
            )
        }
        found = {
            n: v
            for n in sorted(wanted)
            if n not in checkpoint.values and (v := channel(checkpoint, n, blobs)) is not wire.MISSING
        }
        if found:
            checkpoint.values = {**checkpoint.values, **found}
