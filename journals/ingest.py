"""Imports files: kept as they came, given to the adapter that knows them, written to the journal, and reported.

`submit` makes the rows, `run` does the work (in a task, or in the command), `report` tells what came of it. The row in
PostgreSQL is the truth: a run that dies is claimed again and goes on behind the lines that are stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models.functions import Now

from journals import errors, signals, store
from journals.adapters import ADAPTERS
from journals.adapters.base import InputFile, Item, Options, shown
from journals.files import LIMITS, CannotOpen, Found, open_input
from journals.imports_closing import close
from journals.imports_kept import keep, open_kept
from journals.imports_models import Import, ImportFile, ImportRun, State, Upload
from journals.imports_writing import FileSoFar, Superseded, TooManyWithoutId, Writer, beat

__all__ = ["ATTEMPTS", "FORMATS", "NAMES", "STALE_S", "run", "status_of", "submit", "wait"]

log = logging.getLogger(__name__)

FORMATS: Final = ("auto", *ADAPTERS)
STALE_S: Final = 300  # seconds without a beat after which a claim may be taken over
ATTEMPTS: Final = 5  # claims after which an import is given up
NAMES: Final = {"source": 200, "agent": 200, "environment": 100}  # characters of a name that is given with an import
SURE: Final = 0.5  # an adapter's own word that a file is of its format

status_of: Callable[[Sequence[int]], Mapping[int, tuple[str, bool]]] | None = None
"""Set by `runs` when it is installed: (status, complete) by head, up to date with the journal."""


def submit(
    files: Sequence[Found],
    *,
    actor: str,
    format: str = "auto",
    source: str = "",
    agent: str = "",
    environment: str = "",
) -> Import:
    """A queued import of these files, whose bytes are kept. Raises `MalformedRequest` for an unknown format, a native source, a name that is too long, or no file."""
    if format not in FORMATS:
        raise errors.MalformedRequest(f"format {format!r} is not one of {', '.join(FORMATS)}")
    for what, text in (("source", source), ("agent", agent), ("environment", environment)):
        if len(text) > NAMES[what]:
            raise errors.MalformedRequest(
                f"the name of the {what} has {len(text):,} characters, the limit is {NAMES[what]}: {shown(text, 40)}"
            )
        if "\0" in text:
            raise errors.MalformedRequest(f"the name of the {what} holds a NUL character: {shown(text, 40)}")
    if source.startswith("native:"):
        raise errors.MalformedRequest("imports never write to a native source; use another name", source=source)
    if not files:
        raise errors.MalformedRequest("there is no file to import")
    rows = [_file_row(n, found) for n, found in enumerate(files, 1)]
    _name_apart(rows)
    with transaction.atomic():
        made = Import.objects.create(format=format, source=source, actor=actor, agent=agent, environment=environment)
        for row in rows:
            row.imported = made
        ImportFile.objects.bulk_create(rows)
    return made


def _file_row(n: int, found: Found) -> ImportFile:
    row = ImportFile(n=n, path=store.encode_text(found.path))
    problem = found.problem
    if not problem and found.size > LIMITS.unpacked:
        problem = f"the file has {found.size} bytes, the limit is {LIMITS.unpacked}"
    if not problem:
        try:
            row.upload = keep(found.open)
        except OSError as e:
            problem = e.strerror or str(e)
    if problem:
        row.state, row.reason = "refused", shown(problem, 500)
    return row


def _name_apart(rows: Sequence[ImportFile]) -> None:
    """Uploads may carry one name twice; adapters and reports tell files apart by name."""
    used: set[str] = set()
    for row in rows:
        name, copy = row.path, 1
        while row.path in used:
            copy += 1
            row.path = f"{name} ({copy})"
        used.add(row.path)


def run(import_id: int) -> bool:
    """Does the work of a queued or abandoned import; False when it is over or another worker is at it.

    What an import cannot do is in its rows. Raises only what a repeat may cure (the database) and faults of the program, after
    marking the import as failed.
    """
    imported = _claim(import_id)
    if imported is None:
        return False
    try:
        _work(imported)
    except Superseded:
        log.warning("import %s went on in another worker", import_id)
        return False
    except DatabaseError:
        raise
    except Exception as e:
        _end(imported, State.FAILED, error=shown(f"{type(e).__name__}: {e}", 500))
        raise
    _announce(imported)
    return _end(imported, State.DONE)


def _announce(imported: Import) -> None:
    """Tells of the new entries once all are stored: a fold at every batch would read the same journals again and again.

    Whoever dies before leaves the heads marked; pages and the sweep fold them.
    """
    rows = ImportRun.objects.filter(file__imported=imported).order_by("head_id")
    with transaction.atomic():
        signals.announce(list(dict.fromkeys(rows.values_list("head_id", flat=True))))


def _end(imported: Import, state: State, *, error: str = "") -> bool:
    mine = Import.objects.filter(pk=imported.pk, attempts=imported.attempts, state=State.RUNNING)
    return mine.update(state=state, error=error, finished_at=Now()) == 1


def _claim(import_id: int) -> Import | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE journals_import SET state = 'running', attempts = attempts + 1, beat_at = clock_timestamp(), bytes_done = 0"
            " WHERE id = %s AND (state = 'queued' OR state = 'running' AND beat_at < clock_timestamp() - make_interval(secs => %s)) RETURNING id",
            [import_id, STALE_S],
        )
        if cursor.fetchone() is None:
            return None
    imported = Import.objects.get(pk=import_id)
    if imported.attempts > ATTEMPTS:
        _end(imported, State.FAILED, error=f"given up after {ATTEMPTS} attempts: the worker stopped each time")
        return None
    return imported


# -- one attempt ----------------------------------------------------------------------------------------------------


def _work(imported: Import) -> None:
    read = _BytesRead()
    inputs: dict[str, InputFile] = {}
    rows: dict[str, FileSoFar] = {}
    for row in imported.files.select_related("upload").order_by("n"):
        path = store.decode_text(row.path)
        if row.upload is not None and (opened := _open(row, row.upload, path, read)) is not None:
            inputs[path], rows[path] = opened, FileSoFar(row, row.upload.sha256[:16])
    done = 0
    for name, paths in _by_format(imported.format, inputs, rows).items():
        read.count = 0
        done = _read_group(imported, name, [inputs[p] for p in paths], {p: rows[p] for p in paths}, read, done)


class _BytesRead:
    """Bytes fetched of the kept files, for progress."""

    count = 0

    def add(self, size: int) -> None:
        self.count += size


def _open(row: ImportFile, upload: Upload, path: str, read: _BytesRead) -> InputFile | None:
    try:
        if upload.dropped_at is not None:
            raise CannotOpen("its bytes are no longer kept")
        return open_input(path, upload.size, lambda: open_kept(upload.pk, read.add))
    except CannotOpen as e:
        _refuse(row, str(e))
        return None


def _refuse(row: ImportFile, reason: str) -> None:
    row.state, row.reason = "refused", shown(reason, 500)
    row.save(update_fields=["state", "reason"])


def _by_format(wanted: str, inputs: Mapping[str, InputFile], rows: Mapping[str, FileSoFar]) -> dict[str, list[str]]:
    """Paths by format, formats in the order of `ADAPTERS`. Files that no adapter knows are refused."""
    groups: dict[str, list[str]] = {name: [] for name in ADAPTERS}
    for path, file in inputs.items():
        name = wanted if wanted != "auto" else _format_of(file)
        if name:
            rows[path].row.format = name
            groups[name].append(path)
        else:
            _refuse(rows[path].row, _unknown(file))
    return {name: paths for name, paths in groups.items() if paths}


def _format_of(file: InputFile) -> str:
    best, name = 0.0, ""
    for candidate, adapter in ADAPTERS.items():
        try:
            score = adapter.sniff([file])
        except Exception:  # a reader that fails on strange bytes does not know them; the others are asked
            log.exception("the reader %s failed to look at a file", candidate)
            continue
        if score > best:
            best, name = score, candidate
    return name if best >= SURE else ""


def _unknown(file: InputFile) -> str:
    head = file.head(4_096)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    kind = "JSON" if text[:1] in (b"{", b"[") else "binary data" if b"\0" in head else "text"
    formats = ", ".join(ADAPTERS)
    return f"not a journal of a known format ({formats}): {kind} that begins with {shown(text, 60)}"


def _read_group(
    imported: Import,
    name: str,
    inputs: Sequence[InputFile],
    files: Mapping[str, FileSoFar],
    read: _BytesRead,
    done: int,
) -> int:
    """Reads files of one format together; answers how many lines the import has stored after it."""
    source = imported.source or name
    for file in files.values():
        file.row.save(update_fields=["format"])
    writer = Writer(imported, files, runtime=name, source=source, skip=imported.lines_done, done=done)
    options = Options(
        agent=imported.agent,
        environment=imported.environment,
        known=lambda runs: _known(source, runs),
    )
    seen = time.monotonic()
    try:
        for item in _items(ADAPTERS[name].read(inputs, options), name, files):
            writer.bytes_read = read.count
            writer.take(item)
            if time.monotonic() - seen > STALE_S / 10:
                beat(imported)
                seen = time.monotonic()
        writer.flush()
    except (TooManyWithoutId, CannotOpen) as e:
        writer.flush()
        _stop(files, str(e))
    except errors.Refused as e:  # the source is not for these runs: nothing of the group was stored
        for file in files.values():
            _refuse(file.row, e.message)
        return writer.done
    close(imported, list(files.values()), source=source, runtime=name)
    return writer.done


def _stop(files: Mapping[str, FileSoFar], reason: str) -> None:
    """The rest of the group is not read."""
    for file in files.values():
        if file.counted is None:
            file.refused, file.seen = reason, True


def _items(items: Iterator[Item], name: str, files: Mapping[str, FileSoFar]) -> Iterator[Item]:
    """The adapter's items. A fault of the adapter ends them: what was read stays, the files say so, the log has the trace."""
    while True:
        try:
            item = next(items, None)
        except (CannotOpen, DatabaseError):
            raise
        except Exception as e:  # one reader's fault must not lose the other files of the import
            log.exception("the reader %s failed", name)
            _stop(files, f"the reader {name} failed ({type(e).__name__}); this is a fault in Drainboard")
            return
        if item is None:
            return
        yield item


def _known(source: str, runs: Sequence[str]) -> frozenset[str]:
    """Which of these runs the source has."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.run FROM journals_head h JOIN journals_source s ON s.id = h.source_id WHERE s.name = %s AND h.run = ANY(%s)",
            [source, [store.encode_text(run) for run in runs]],
        )
        return frozenset(store.decode_text(run) for (run,) in cursor.fetchall())


def wait(import_id: int, *, seconds: float) -> Import:
    """The import, as soon as it is over or the time has passed."""
    until = time.monotonic() + seconds
    pause = 0.02
    while True:
        found = Import.objects.get(pk=import_id)
        if found.over or time.monotonic() >= until:
            return found
        time.sleep(min(pause, max(until - time.monotonic(), 0)))
        pause = min(pause * 1.5, 0.5)
