"""Shows recorded text without changing it: pretty JSON out of raw bytes, and marks for characters that do not show.

Nothing is decoded into numbers or objects, so 10^400, NaN, doubled keys and 2,000 levels come out as they were recorded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

INDENT_TO: Final = 40  # levels that get their own lines; what is deeper stays on one line, untouched
SHOWN_BYTES: Final = 16_384  # of one value in a page; the whole is one link away

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[\]{}:,]|[^\s\[\]{}:,"]+|\s+', re.DOTALL)


class Piece(NamedTuple):
    """A stretch of text and what it is: key, string, literal, mark or '' (punctuation, blanks)."""

    role: str
    text: str


class Pretty(NamedTuple):
    """What a page shows of one value."""

    pieces: tuple[Piece, ...]
    cut: bool  # the value goes on after what is shown
    size_bytes: int


def pretty(raw: bytes, *, limit: int | None = SHOWN_BYTES) -> Pretty:
    """Indented JSON of `raw`; at most `limit` bytes of the value are looked at (None: all of it).

    Text that is no JSON comes out as it is, whitespace included.
    """
    head = raw if limit is None or len(raw) <= limit else raw[:limit]
    pieces: list[Piece] = []
    for role, data in _laid_out(head):
        pieces.extend(_marked(role, data.decode("utf-8", "backslashreplace" if head is raw else "ignore")))
    return Pretty(tuple(_joined(pieces)), head is not raw, len(raw))


def _laid_out(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Tokens with their role and with line breaks put in between; recursion-free."""
    if raw.lstrip()[:1] not in (b"{", b"["):
        yield ("string" if raw.lstrip()[:1] == b'"' else "literal"), raw
        return
    tokens = [t for t in _TOKEN.findall(raw) if not t.isspace()]
    depth = 0
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else b""
        if token in (b"{", b"["):
            depth += 1
            empty = following in (b"}", b"]")
            yield "", token + (b"" if empty or depth > INDENT_TO else _line(depth))
        elif token in (b"}", b"]"):
            empty = i > 0 and tokens[i - 1] in (b"{", b"[")
            yield "", (b"" if empty or depth > INDENT_TO else _line(depth - 1)) + token
            depth = max(depth - 1, 0)
        elif token == b",":
            yield "", b"," + (_line(depth) if depth <= INDENT_TO else b" ")
        elif token == b":":
            yield "", b": "
        else:
            yield _role(token, following), token


def _line(depth: int) -> bytes:
    return b"\n" + b"  " * depth


def _role(token: bytes, following: bytes) -> str:
    if token[:1] != b'"':
        return "literal"
    return "key" if following == b":" else "string"


_HIDDEN: Final = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_NAMES: Final = {
    "\u202a": "LRE",
    "\u202b": "RLE",
    "\u202c": "PDF",
    "\u202d": "LRO",
    "\u202e": "RLO",
    "\u2066": "LRI",
    "\u2067": "RLI",
    "\u2068": "FSI",
    "\u2069": "PDI",
    "\u200e": "LRM",
    "\u200f": "RLM",
    "\u061c": "ALM",
    "\u200b": "ZWSP",
    "\u200c": "ZWNJ",
    "\u200d": "ZWJ",
    "\u2060": "WJ",
    "\ufeff": "BOM",
    "\u00ad": "SHY",
    "\u00a0": "NBSP",
    "\u202f": "NNBSP",
}


def mark_of(char: str) -> str:
    """The name shown in place of a character that does not show itself: `U+202E RLO`."""
    name = _NAMES.get(char) or unicodedata.name(char, "")[:24]
    return f"U+{ord(char):04X}{' ' + name if name else ''}"


def marks(text: str) -> tuple[Piece, ...]:
    """The text in pieces, with every control, bidirectional and invisible character replaced by a mark that names it."""
    return tuple(_marked("", text))


def id_marks(text: str) -> tuple[Piece, ...]:
    """As `marks`, for ids: also spaces at the ends or in a row, tabs and line ends, which a page would swallow; `(empty)` for ''."""
    if not text:
        return (Piece("mark", "(empty)"),)
    pieces: list[Piece] = []
    at = 0
    for found in _SWALLOWED.finditer(text):
        pieces += _marked("", text[at : found.start()])
        pieces += [Piece("mark", _SPACE_MARKS[c]) for c in found.group()]
        at = found.end()
    return (*pieces, *_marked("", text[at:]))


_SWALLOWED: Final = re.compile(r"^ +| +$| {2,}|[\t\n ]*[\t\n][\t\n ]*")
_SPACE_MARKS: Final = {" ": "\u2423", "\t": "\u21e5", "\n": "\u23ce"}


def _marked(role: str, text: str) -> Iterator[Piece]:
    at = 0
    for found in _HIDDEN.finditer(text):
        if found.start() > at:
            yield Piece(role, text[at : found.start()])
        yield Piece("mark", mark_of(found.group()))
        at = found.end()
    if at < len(text):
        yield Piece(role, text[at:] if at else text)


def _joined(pieces: list[Piece]) -> Iterator[Piece]:
    """Neighbours of one role as one piece, so that the page has few elements."""
    role, texts = "", list[str]()
    for piece in pieces:
        if texts and (piece.role != role or role == "mark"):
            yield Piece(role, "".join(texts))
            texts = []
        role = piece.role
        texts.append(piece.text)
    if texts:
        yield Piece(role, "".join(texts))


def gist(text: str, *, limit: int = 240) -> tuple[Piece, ...]:
    """The start of a JSON value as one line to skim: quotes and outer braces left out, keys apart from values.

    For a row only; the exact value is one click away. Text that is no object or array comes out as it is.
    """
    raw = text[:limit].encode("utf-8", "backslashreplace")
    if raw[:1] not in (b"{", b"["):
        plain = text[:limit]
        return tuple(_marked("", plain[1:-1] if plain[:1] == plain[-1:] == '"' and len(plain) > 1 else plain))
    tokens = [t for t in _TOKEN.findall(raw) if not t.isspace()]
    pieces: list[Piece] = []
    depth = 0
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else b""
        if token in (b"{", b"}", b"[", b"]"):
            opens = token in (b"{", b"[")
            depth += 1 if opens else 0
            if depth > 1 or token in (b"[", b"]"):
                pieces.append(Piece("", {b"{": "(", b"}": ")"}.get(token, token.decode())))
            depth -= 0 if opens else 1
        elif token == b":":
            pieces.append(Piece("", " "))
        elif token == b",":
            pieces.append(Piece("", ", "))
        else:
            shown = token.decode("utf-8", "replace")
            shown = shown[1:-1] if token[:1] == b'"' and token[-1:] == b'"' and len(token) > 1 else shown.lstrip('"')
            pieces.extend(_marked("key" if following == b":" else "", shown))
    return tuple(_joined(pieces))
