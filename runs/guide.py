"""The pages about findings: `docs/findings/*.md` taken apart into blocks that a template writes out, so that no HTML is built here."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.urls import reverse
from markdown_it import MarkdownIt
from markdown_it.token import Token

from runs.findings import CODES

__all__ = ["Block", "Entry", "Page", "index", "page_of", "url_of"]

MARKDOWN: Final = MarkdownIt("commonmark", {"html": False})


@dataclass(frozen=True, slots=True)
class Inline:
    """A piece of a line. `kind`: text, code, strong."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """`kind`: heading, text, numbered, listed, code. One line, or one per item of a list."""

    kind: str
    lines: Sequence[Sequence[Inline]]


@dataclass(frozen=True, slots=True)
class Page:
    """What a finding means and what to do."""

    code: str
    title: str
    severity: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list of all findings."""

    code: str
    title: str
    severity: str


def url_of(code: str) -> str:
    """The address of a finding's page."""
    return reverse("runs:finding", args=[code])


def index() -> list[Entry]:
    """Every finding, in the order in which they are documented."""
    return [Entry(code, title, str(severity)) for code, (severity, title) in CODES.items()]


@functools.cache
def page_of(code: str) -> Page:
    """The page of a finding. Raises `KeyError` for a code that is not one."""
    severity, title = CODES[code]
    text = (settings.BASE_DIR / "docs" / "findings" / f"{code}.md").read_text(encoding="utf-8")
    return Page(code, title, str(severity), tuple(_blocks(MARKDOWN.parse(text))))


_OPENS: Final = {"ordered_list_open": "numbered", "bullet_list_open": "listed"}


def _blocks(tokens: Iterable[Token]) -> Iterator[Block]:
    """Headings below the first, paragraphs, lists and code. Raises `ValueError` for any other form."""
    kind, lines = "", list[Sequence[Inline]]()
    heading = ""
    for token in tokens:
        if token.type in _OPENS:
            kind, lines = _OPENS[token.type], []
        elif token.type in ("ordered_list_close", "bullet_list_close"):
            yield Block(kind, lines)
            kind = ""
        elif token.type == "heading_open":
            heading = token.tag
        elif token.type == "fence":
            yield Block("code", [[Inline("text", token.content)]])
        elif token.type == "inline" and kind:
            lines.append(_inlines(token))
        elif token.type == "inline":
            if heading != "h1":
                yield Block("heading" if heading else "text", [_inlines(token)])
            heading = ""
        elif token.type not in _SILENT:
            raise ValueError(f"a page about a finding has no {token.type}")


_SILENT: Final = frozenset(
    ("heading_close", "paragraph_open", "paragraph_close", "list_item_open", "list_item_close")
)  # what stands between carries the text


def _inlines(token: Token) -> list[Inline]:
    made, strong = [], False
    for child in token.children or ():
        if child.type in ("strong_open", "strong_close"):
            strong = child.type == "strong_open"
        elif child.type == "code_inline":
            made.append(Inline("code", child.content))
        elif child.type in ("text", "softbreak", "text_special"):
            made.append(Inline("strong" if strong else "text", child.content or " "))
        else:
            raise ValueError(f"a line about a finding has no {child.type}")
    return made
