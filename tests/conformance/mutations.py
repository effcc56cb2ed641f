"""Seeded damage to captures: of their bytes, and of what their JSON holds. The same seed gives the same files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

__all__ = ["Mutant", "less_of_json", "mutants"]

Files = tuple[tuple[str, bytes], ...]
BRACKETS = 3_000
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 1.5, 1e308, "", " ", "x", "0", "-1", "\u202e", "\0", "\ud800", [], {}, [[]],
    {"": ""}, [None], "9999-99-99T99:99:99Z", "2026-02-30T00:00:00Z", "0000-00-00", 10**40, "1" * 400, "\n", "[", "{", "e" * 2_000,
)  # fmt: skip
ODD_TEXTS = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"1" * 5_000,
    b"-0",
    b"nul",
    b'"\\ud800"',
    b"01",
    b'"\\x"',
    b"1e-999",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    files: Files
    what: str  # the kind of damage
    only_less: bool = False  # records or fields were taken away, nothing else


def mutants(files: Files, seed: object, n: int) -> Iterator[Mutant]:
    """`n` damaged copies of these files."""
    for i in range(n):
        rng = Random(f"{seed}:{i}")
        at = rng.randrange(len(files))
        path, data = files[at]
        for _ in range(20):
            what, change, less = rng.choice(_CHANGES)
            made = change(rng, data)
            if made is not None and made != data:
                break
        else:
            what, made, less = "a byte", _flip(rng, data) or b"x", False
        yield Mutant((*files[:at], (path, made), *files[at + 1 :]), what, less)


# -- bytes ----------------------------------------------------------------------------------------------------------


def _stretch(rng: Random, data: bytes, longest: int = 400) -> tuple[int, int]:
    at = rng.randrange(len(data) + 1)
    return at, min(len(data), at + rng.randrange(1, longest))


def _flip(rng: Random, data: bytes) -> bytes | None:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 3, 20))):
        if made:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def _cut(rng: Random, data: bytes) -> bytes:
    a, b = _stretch(rng, data)
    return data[:a] + data[b:]


def _end(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _beginning(rng: Random, data: bytes) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _insert(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    given = rng.choice(
        (
            rng.randbytes(rng.randrange(1, 60)),
            b"\0" * rng.randrange(1, 40),
            b"\xff\xfe",
            b"[" * BRACKETS,
            b'{"a":' * BRACKETS,
            b"]" * 50,
            b'"',
            b"\\",
            b"\n",
            b"\r\n",
            b",",
            b"}",
            *ODD_TEXTS,
        )
    )
    return data[:at] + given + data[at:]


def _double(rng: Random, data: bytes) -> bytes:
    a, b = _stretch(rng, data, 2_000)
    return data[:b] + data[a:b] + data[b:]


def _swap_lines(rng: Random, data: bytes) -> bytes | None:
    lines = data.split(b"\n")
    if len(lines) < 3:
        return None
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _drop_line(rng: Random, data: bytes) -> bytes | None:
    lines = data.split(b"\n")
    if len(lines) < 3:
        return None
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def _zeroes(rng: Random, data: bytes) -> bytes:
    a, b = _stretch(rng, data)
    return data[:a] + b"\0" * (b - a) + data[b:]


def _digits(rng: Random, data: bytes) -> bytes | None:
    """Other digits of one number, anywhere."""
    places = [i for i in range(len(data)) if 48 <= data[i] <= 57] if len(data) < 200_000 else []
    if not places:
        return None
    made = bytearray(data)
    made[rng.choice(places)] = rng.choice(b"0123456789")
    return bytes(made)


# -- what JSON holds ------------------------------------------------------------------------------------------------


def _parsed(data: bytes) -> Any:
    """The value of a JSON file, or the list of those of its lines; None when it is neither."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        pass
    try:
        return _Lines(json.loads(line) for line in data.split(b"\n") if line.strip())
    except (ValueError, RecursionError):
        return None


class _Lines(list[Any]):
    """The values of a file with one value a line."""


def _dumped(value: Any) -> bytes:
    if isinstance(value, _Lines):
        return b"".join(json.dumps(v).encode() + b"\n" for v in value)
    return json.dumps(value, indent=1).encode()


Place = tuple[Any, Any]  # an object or array, and a key or index of it


def _places(value: Any, wanted: Callable[[Any, Any], bool]) -> list[Place]:
    found: list[Place] = []
    left = [value]
    while left:
        one = left.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            if wanted(one, key):
                found.append((one, key))
            if isinstance(one[key], dict | list):
                left.append(one[key])
    return found


def _json(
    wanted: Callable[[Any, Any], bool], change: Callable[[Random, Any, Any], None]
) -> Callable[[Random, bytes], bytes | None]:
    def made(rng: Random, data: bytes) -> bytes | None:
        value = _parsed(data)
        if not isinstance(value, dict | list) or not (found := _places(value, wanted)):
            return None
        holder, key = rng.choice(found)
        change(rng, holder, key)
        try:
            return _dumped(value)
        except (ValueError, RecursionError):
            return None

    return made


def _any(_: Any, __: Any) -> bool:
    return True


def _is_field(holder: Any, _: Any) -> bool:
    return isinstance(holder, dict)


def _is_record(holder: Any, key: Any) -> bool:
    return isinstance(holder, list) and isinstance(holder[key], dict)


def _is_field_or_record(holder: Any, key: Any) -> bool:
    return _is_field(holder, key) or _is_record(holder, key)


def _is_text(holder: Any, key: Any) -> bool:
    return isinstance(holder[key], str) and len(holder[key]) > 1


def _set_odd(rng: Random, holder: Any, key: Any) -> None:
    holder[key] = rng.choice(ODD_VALUES)


def _remove(_: Random, holder: Any, key: Any) -> None:
    del holder[key]


def _rename(rng: Random, holder: Any, key: Any) -> None:
    holder[rng.choice(sorted({f"{key}x", f"_{key}", f"{key.upper()}_"} - holder.keys()))] = holder.pop(key)


def _truncate(rng: Random, holder: Any, key: Any) -> None:
    holder[key] = holder[key][: rng.randrange(len(holder[key]))]


def _deep(_: Random, holder: Any, key: Any) -> None:
    deep: Any = holder[key]
    for _i in range(700):
        deep = [deep]
    holder[key] = deep


def _as_text(_: Random, holder: Any, key: Any) -> None:
    holder[key] = holder[key] if isinstance(holder[key], str) else json.dumps(holder[key])


def _repeat(_: Random, holder: Any, key: Any) -> None:
    holder.insert(key, json.loads(json.dumps(holder[key])))


def _exchange(rng: Random, holder: Any, key: Any) -> None:
    other = rng.randrange(len(holder))
    holder[key], holder[other] = holder[other], holder[key]


def _other_value(rng: Random, holder: Any, key: Any) -> None:
    """What another place of the same file holds under the same name, or under any."""
    holder[key] = rng.choice(list(holder.values())) if isinstance(holder, dict) else rng.choice(holder)


_CHANGES: tuple[tuple[str, Callable[[Random, bytes], bytes | None], bool], ...] = (
    ("bits", _flip, False),
    ("a stretch gone", _cut, False),
    ("no end", _end, False),
    ("no beginning", _beginning, False),
    ("something between", _insert, False),
    ("a stretch twice", _double, False),
    ("lines swapped", _swap_lines, False),
    ("a line gone", _drop_line, False),
    ("zeroes", _zeroes, False),
    ("digits", _digits, False),
    ("another value", _json(_any, _set_odd), False),
    ("another value of its object", _json(_any, _other_value), False),
    ("a field gone", _json(_is_field, _remove), True),
    ("a record gone", _json(_is_record, _remove), True),
    ("a field renamed", _json(_is_field, _rename), True),
    ("a text cut", _json(_is_text, _truncate), False),
    ("nested", _json(_any, _deep), False),
    ("as text", _json(_any, _as_text), False),
    ("a record twice", _json(_is_record, _repeat), False),
    ("records swapped", _json(_is_record, _exchange), False),
)


def less_of_json(data: bytes, at_most: int = 0) -> Iterator[tuple[str, bytes]]:
    """Ways to take one field or one record of a JSON file away: what it was, and the rest. All of them, or an even choice."""
    whole = _parsed(data)
    if not isinstance(whole, dict | list):
        return
    count = len(_places(whole, _is_field_or_record))
    for n in range(0, count, max(1, -(-count // at_most)) if at_most else 1):
        value = _parsed(data)
        holder, key = _places(value, _is_field_or_record)[n]
        del holder[key]
        yield f"{key}" if isinstance(holder, dict) else f"record {key}", _dumped(value)
