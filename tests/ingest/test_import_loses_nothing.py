"""From file to journal: every file of the damaged set, imports repeated, conflicts, exact bytes, crashes in the middle."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from drainboard import wire

from journals import imports_writing, ingest, store
from journals.imports_kept import drop_older, open_kept
from journals.imports_models import Import, ImportFile, Upload, UploadPart
from journals.imports_report import FileReport, exit_code, report
from tests.ingest.conftest import LINES, TORN, Importing, memory

pytestmark = pytest.mark.django_db

GOOD = (TORN / "00-good.jsonl").read_bytes()

# file: (state, exit code, entries read, unread, (new, existing, conflicts) of its run, words of reason and notes)
TABLE: dict[str, tuple[str, int, int, int, tuple[int, int, list[int]] | None, list[str]]] = {
    "00-good.jsonl": ("complete", 0, 5, 0, (5, 0, []), []),
    "01-zero-bytes.jsonl": ("refused", 2, 0, 0, None, ["empty"]),
    "02-bom.jsonl": ("complete", 0, 5, 0, (5, 0, []), ["byte order mark"]),
    "03-crlf.jsonl": ("complete", 0, 5, 0, (5, 0, []), ["CR LF"]),
    "04-no-last-newline.jsonl": ("complete", 0, 5, 0, (5, 0, []), []),
    "05-torn-tail.jsonl": ("partial", 1, 5, 1, (5, 0, []), ["line 6 ends before its record does"]),
    "06-torn-middle.jsonl": ("partial", 1, 4, 1, (4, 0, []), ["line 3 not read", "entry 3 has not been received"]),
    "07-glued.jsonl": ("complete", 0, 5, 0, (5, 0, []), ["more than one record"]),
    "08-torn-then-glued.jsonl": ("partial", 1, 4, 1, (4, 0, []), ["line 2 not read", "entry 2 has not been received"]),
    "09-nul-block.jsonl": ("partial", 1, 5, 1, (5, 0, []), ["line 3 not read"]),
    "10-raw-newline-in-string.jsonl": ("complete", 0, 5, 0, (5, 0, []), ["spread over lines"]),
    "11-u2028.jsonl": ("complete", 0, 5, 0, (5, 0, []), []),
    "12-bad-utf8.jsonl": ("complete", 0, 5, 0, (5, 0, []), ["not UTF-8"]),
    "13-cut-utf8-tail.jsonl": ("partial", 1, 5, 1, (5, 0, []), ["line 6 ends before its record does"]),
    "14-utf16.jsonl": ("complete", 0, 5, 0, (5, 0, []), ["UTF-16"]),
    "15-good.jsonl.gz": ("complete", 0, 5, 0, (5, 0, []), []),
    "16-cut.jsonl.gz": ("partial", 1, 4, 1, (4, 0, []), ["gzip stream is cut"]),
    "17-two-members.jsonl.gz": ("complete", 0, 5, 0, (5, 0, []), ["2 members"]),
    "18-gz-named-json.json": ("complete", 0, 5, 0, (5, 0, []), []),
    "19-blank-lines.jsonl": ("complete", 0, 5, 0, (5, 0, []), ["blank lines"]),
    "20-array-instead.jsonl": ("complete", 0, 5, 0, (5, 0, []), ["JSON array"]),
    "21-out-of-order-and-twice.jsonl": ("complete", 0, 6, 0, (5, 1, []), ["entry 2 received 2 times"]),
    "22-same-seq-two-contents.jsonl": ("complete", 0, 6, 0, (6, 0, [3]), ["other content than before at 3"]),
    "23-hole.jsonl": ("complete", 0, 3, 0, (3, 0, []), ["entries 3 to 4 have not been received"]),
}


def test_every_damaged_file_is_in_the_table() -> None:
    assert set(TABLE) == {p.name for p in TORN.iterdir()}


def told(file: FileReport) -> str:
    return " ".join([file["reason"], *file["notes"]])


def shown_entries(key: str) -> int:
    out = io.StringIO()
    call_command("show_run", key, json=True, stdout=out)
    return int(json.loads(out.getvalue())["entries"])


def lines_of(key: str) -> list[bytes]:
    """The run's lines as imported, without notes about them."""
    head = store.find(key=key)
    return [e.raw for e in store.read(head.id) if e.entry.name != "runtime.state"]


@pytest.mark.parametrize("name", TABLE)
def test_reports_each_damaged_file_and_adds_nothing_the_second_time(name: str, importing: Importing) -> None:
    state, code, read, lost, counts, words = TABLE[name]
    data = (TORN / name).read_bytes()
    made = importing({name: data}, source=name)
    (file,) = made["files"]
    assert (file["state"], exit_code(made), file["entries_read"], file["unread_lines"]) == (state, code, read, lost)
    assert file["lines"] == file["entries_read"] + len(file["unread"])
    assert all(word in told(file) for word in words)
    runs = [(r["new_entries"], r["existing_entries"], r["conflicts"]) for r in file["runs"]]
    assert runs == ([counts] if counts else [])
    assert not any(r["complete"] for r in file["runs"])
    if not counts:
        return
    before = store.find(key=file["runs"][0]["key"]).pos
    assert shown_entries(file["runs"][0]["key"]) == counts[0], "what people read is the count of the file's entries"
    (again,) = importing({name: data}, source=name)["files"]
    assert [(r["key"], r["new_entries"]) for r in again["runs"]] == [(file["runs"][0]["key"], 0)]
    assert [(r["conflicts"], r["standing_conflicts"]) for r in again["runs"]] == [([], counts[2])]
    assert store.find(key=file["runs"][0]["key"]).pos == before


def test_keeps_both_contents_of_a_conflict(importing: Importing) -> None:
    (file,) = importing({"f": (TORN / "22-same-seq-two-contents.jsonl").read_bytes()})["files"]
    found = [wire.parse(raw) for raw in lines_of(file["runs"][0]["key"])]
    assert [e.out for e in found if e.seq == 3] == [3, "other"]


def test_marks_a_run_of_a_torn_file_until_the_whole_file_comes(importing: Importing) -> None:
    (torn,) = importing({"f": GOOD[:400]})["files"]
    head = store.find(key=torn["runs"][0]["key"])
    (note,) = [e.entry.out for e in store.read(head.id) if e.entry.name == "runtime.state"]
    assert note["complete"] is False
    assert "ends before its record does" in note["partial"]
    assert "ends before its record does" in torn["runs"][0]["reason"]
    (whole,) = importing({"f": GOOD})["files"]
    assert (whole["runs"][0]["new_entries"], whole["runs"][0]["existing_entries"], whole["runs"][0]["reason"]) == (
        2,
        3,
        "",
    )
    newest = [e.entry.out for e in store.read(head.id) if e.entry.name == "runtime.state"][-1]
    assert "partial" not in newest
    assert newest["complete"] is None


def test_does_not_call_a_run_whole_because_another_part_of_it_is(importing: Importing) -> None:
    importing({"f": (TORN / "06-torn-middle.jsonl").read_bytes()})
    (later,) = importing({"g": GOOD.replace(b'"seq":', b'"seq":1')})["files"]
    assert "line 3 not read" in later["runs"][0]["reason"]


def test_marks_every_run_when_nobody_can_say_whose_the_lost_line_was(importing: Importing) -> None:
    data = b'{"run":"a","seq":1,"kind":"note"}\n?????\n{"run":"b","seq":1,"kind":"note"}\n'
    (file,) = importing({"f": data})["files"]
    assert [(r["run"], r["reason"]) for r in file["runs"]] == [("a", "line 2 not read"), ("b", "line 2 not read")]


def test_marks_only_the_run_that_a_torn_line_names(importing: Importing) -> None:
    data = b'{"run":"a","seq":1,"kind":"note"}\n{"run":"a","seq":2,"ki\n{"run":"b","seq":1,"kind":"note"}\n'
    (file,) = importing({"f": data})["files"]
    assert [(r["run"], bool(r["reason"])) for r in file["runs"]] == [("a", True), ("b", False)]


def test_keeps_every_odd_payload_exactly(importing: Importing) -> None:
    data = (LINES / "odd_payloads.jsonl").read_bytes()
    (file,) = importing({"f": data})["files"]
    (run,) = file["runs"]
    assert (file["entries_read"], run["new_entries"]) == (15, 15)
    head = store.find(key=run["key"])
    assert b"".join(raw + b"\n" for raw in store.export(head.id, native=False)) == data
    assert all(e.entry.run == "r-19" for e in store.read(head.id))


def test_gives_the_file_back_as_it_came(importing: Importing) -> None:
    for name in (
        "03-crlf.jsonl",
        "12-bad-utf8.jsonl",
        "16-cut.jsonl.gz",
        "19-blank-lines.jsonl",
        "21-out-of-order-and-twice.jsonl",
    ):
        data = (TORN / name).read_bytes()
        made = importing({name: data}, source=name)
        row = ImportFile.objects.get(imported_id=made["id"])
        assert row.upload is not None
        assert open_kept(row.upload.pk).read() == data
        assert row.upload.sha256 == hashlib.sha256(data).hexdigest()


def test_forgets_old_files_and_takes_them_again(importing: Importing) -> None:
    made = importing({"f": GOOD})
    assert drop_older(days=30) == 0
    Upload.objects.update(created_at="2020-01-01T00:00:00Z")
    assert drop_older(days=30) == 0, "its import is of today"
    Import.objects.update(finished_at="2020-01-01T00:00:00Z")
    assert drop_older(days=30) == 1
    assert not UploadPart.objects.exists()
    assert len(lines_of(made["files"][0]["runs"][0]["key"])) == 5
    (again,) = importing({"f": GOOD})["files"]
    assert (again["state"], again["runs"][0]["existing_entries"]) == ("complete", 5)


def test_an_oddity_of_a_record_reaches_the_findings(importing: Importing) -> None:
    attributes = '{"workflowId":"w","originalExecutionRunId":"r","attempt":1,"attempt":2}'
    event = f'{{"eventId":"1","eventType":"EVENT_TYPE_WORKFLOW_EXECUTION_STARTED","taskId":"1","workflowExecutionStartedEventAttributes":{attributes}}}'
    history = f'{{"events":[{event}]}}'.encode()
    (file,) = importing({"h.json": history})["files"]
    assert (file["format"], file["state"]) == ("temporal", "complete")
    out = io.StringIO()
    call_command("show_run", file["runs"][0]["key"], json=True, stdout=out)
    assert "non_standard_json" in [f["code"] for f in json.loads(out.getvalue())["findings"]]
    (again,) = importing({"h.json": history})["files"]
    assert again["runs"][0]["new_entries"] == 0


def test_points_each_entry_at_its_line_in_the_file(importing: Importing) -> None:
    data = (TORN / "08-torn-then-glued.jsonl").read_bytes()
    (file,) = importing({"f": data})["files"]
    head = store.find(key=file["runs"][0]["key"])
    sha = hashlib.sha256(data).hexdigest()[:16]
    assert [e.record for e in store.read(head.id)][:3] == [f"{sha}#line=1", f"{sha}#line=2,byte=139", f"{sha}#line=3"]


def test_keeps_27_awkward_ids_apart(importing: Importing) -> None:
    (file,) = importing({"f": (LINES / "awkward_ids.jsonl").read_bytes()})["files"]
    assert len({r["key"] for r in file["runs"]}) == len(file["runs"]) == 27
    for n, run in enumerate(file["runs"]):
        (entry,) = store.read(store.find(key=run["key"]).id)
        assert entry.entry.in_ == {"n": n}
        assert store.find(run=run["run"], source=run["source"]).key == run["key"]


def test_never_merges_entries_without_id(importing: Importing) -> None:
    line = b'{"run":"r","kind":"note","out":1}\n'
    (file,) = importing({"f": line * 99})["files"]
    assert file["runs"][0]["new_entries"] == 99
    (again,) = importing({"f": line * 99})["files"]
    assert (again["runs"][0]["new_entries"], again["runs"][0]["existing_entries"]) == (0, 99)
    (grown,) = importing({"f": line * 100})["files"]
    assert (grown["runs"][0]["new_entries"], grown["runs"][0]["existing_entries"]) == (1, 99)


def test_files_entries_under_ids_of_any_length(importing: Importing) -> None:
    data = b"".join(wire.dump({"run": "r", "id": "x" * n, "kind": "note"}) + b"\n" for n in (0, 512, 513, 9_000, 9_001))
    (file,) = importing({"f": data})["files"]
    assert file["runs"][0]["new_entries"] == 5
    (again,) = importing({"f": data})["files"]
    assert again["runs"][0]["new_entries"] == 0


@pytest.mark.parametrize("seed", range(5))
def test_holds_the_same_entries_in_whatever_order_and_number_they_come(seed: int, importing: Importing) -> None:
    order = random.Random(seed)
    lines = [wire.dump({"run": f"r{n % 3}", "seq": n, "kind": "note", "out": n}) for n in range(1, 120)]
    conflicting = order.sample(range(1, 120), 10)
    lines += [wire.dump({"run": f"r{n % 3}", "seq": n, "kind": "note", "out": "other"}) for n in conflicting]
    sent = [line for line in lines for _ in range(order.randrange(1, 6))]
    order.shuffle(sent)
    half = len(sent) // 2
    first = importing({"a": b"\n".join(sent[:half]) + b"\n"})
    second = importing({"b": b"\n".join(sent[half:]) + b"\n"})
    keys = {r["run"]: r["key"] for made in (first, second) for r in made["files"][0]["runs"]}
    assert sorted(raw for key in keys.values() for raw in lines_of(key)) == sorted(lines)
    found = [n for made in (first, second) for r in made["files"][0]["runs"] for n in r["conflicts"]]
    assert sorted(found) == sorted(conflicting)


@pytest.mark.parametrize("cut", [*range(1, len(GOOD), 7), len(GOOD) - 1])
def test_never_shows_a_prefix_as_a_finished_run(cut: int, importing: Importing) -> None:
    for known in ("auto", "lines"):
        made = importing({"f": GOOD[:cut]}, format=known, source=f"{cut}{known}")
        (file,) = made["files"]
        assert file["lines"] == file["entries_read"] + len(file["unread"])
        assert not any(r["complete"] or r["status"] == "completed" for r in file["runs"])
        ends_whole = GOOD[:cut].endswith((b"\n", b"}"))
        assert (exit_code(made) == 0) == ends_whole


def test_survives_seeded_damage(importing: Importing) -> None:
    from tests.ingest.test_lines_adapter_reads_damaged_files import mutated

    for name in ("odd_payloads.jsonl", "awkward_ids.jsonl"):
        data = (LINES / name).read_bytes()
        for seed in range(40):
            made = importing({"f": mutated(data, random.Random(seed))}, source=f"{name}{seed}")
            (file,) = made["files"]
            assert made["state"] == "done", seed
            assert file["lines"] == file["entries_read"] + len(file["unread"]), seed


def test_imports_several_files_of_one_run_together(importing: Importing) -> None:
    first, second = GOOD[:208], gzip.compress(GOOD[208:])
    made = importing({"a": first, "b": second, "notes.txt": b"remember the milk\n"})
    assert [(f["state"], f["format"]) for f in made["files"]] == [
        ("complete", "lines"),
        ("complete", "lines"),
        ("refused", ""),
    ]
    assert made["files"][0]["runs"][0]["key"] == made["files"][1]["runs"][0]["key"]
    assert "text that begins with remember the milk" in made["files"][2]["reason"]
    assert exit_code(made) == 2


def test_tells_files_of_one_name_apart(importing: Importing) -> None:
    assert ingest.submit([memory("f", GOOD), memory("f", GOOD)], actor="t").files.count() == 2
    assert [row.path for row in ImportFile.objects.order_by("n")] == ["f", "f (2)"]


def test_refuses_a_native_source_and_an_unknown_format(importing: Importing) -> None:
    from journals import errors

    with pytest.raises(errors.MalformedRequest, match="native"):
        importing({"f": GOOD}, source="native:prod")
    with pytest.raises(errors.MalformedRequest, match="not one of"):
        importing({"f": GOOD}, format="sideways")


def test_refuses_a_source_of_another_runtime(importing: Importing) -> None:
    store.source_id("other", runtime="temporal")
    (file,) = importing({"f": GOOD}, source="other")["files"]
    assert file["state"] == "refused"
    assert "temporal" in file["reason"]


def test_goes_on_behind_what_was_stored_when_the_worker_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports_writing, "BATCH_LINES", 10)
    lines = b"".join(wire.dump({"run": f"r{n % 2}", "kind": "note", "out": n // 4}) + b"\n" for n in range(95))
    made = ingest.submit([memory("f", lines)], actor="tests")
    _die_after(monkeypatch, batches=4)
    with pytest.raises(SystemExit):
        ingest.run(made.pk)
    made.refresh_from_db()
    assert (made.state, made.lines_done) == ("running", 40)
    assert not ingest.run(made.pk), "the claim is fresh"
    Import.objects.filter(pk=made.pk).update(beat_at="2020-01-01T00:00:00Z")
    monkeypatch.undo()
    assert ingest.run(made.pk)
    made.refresh_from_db()
    (file,) = report(made)["files"]
    assert [(r["new_entries"], r["existing_entries"]) for r in file["runs"]] == [(48, 0), (47, 0)]
    assert (file["state"], file["entries_read"], made.attempts) == ("complete", 95, 2)


def _die_after(monkeypatch: pytest.MonkeyPatch, *, batches: int) -> None:
    real: Callable[..., Any] = store.ingest
    calls = iter(range(batches))

    def dying(**given: Any) -> Any:
        if next(calls, None) is None:
            raise SystemExit
        return real(**given)

    monkeypatch.setattr(store, "ingest", dying)


def test_writes_nothing_more_when_another_worker_has_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports_writing, "BATCH_LINES", 2)
    made = ingest.submit([memory("f", GOOD)], actor="tests")
    real: Callable[..., Any] = store.ingest
    stored: list[int] = []

    def overtaken(**given: Any) -> Any:
        stored.append(len(given["items"]))
        answer = real(**given)
        Import.objects.filter(pk=made.pk).update(attempts=99)
        return answer

    monkeypatch.setattr(store, "ingest", overtaken)
    assert not ingest.run(made.pk)
    made.refresh_from_db()
    assert (made.state, stored) == ("running", [2])


def test_gives_up_an_import_whose_worker_dies_each_time() -> None:
    made = ingest.submit([memory("f", GOOD)], actor="tests")
    Import.objects.filter(pk=made.pk).update(attempts=ingest.ATTEMPTS)
    assert not ingest.run(made.pk)
    made.refresh_from_db()
    assert (made.state, "given up" in made.error) == ("failed", True)
    assert exit_code(report(made)) == 2


def test_stops_before_lines_without_id_cost_too_much(importing: Importing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports_writing, "WITHOUT_ID", 10)
    (file,) = importing({"f": b"".join(wire.dump({"run": "r", "kind": "note", "out": n}) + b"\n" for n in range(30))})[
        "files"
    ]
    assert file["state"] in ("partial", "refused")
    assert "neither `id` nor `seq`" in file["reason"]
