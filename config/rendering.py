"""Pages in which no character acts unseen: what a template forgot to mark is marked here.

Templates show recorded text with the filter `visible`, which makes an element of each hidden character. This is the net below
them: whatever is left of control, bidirectional and invisible characters, and of lone surrogates that UTF-8 has no form for.
"""

from __future__ import annotations

import re
from typing import Any, Final

from django.http import HttpRequest
from django.template.backends import django as backend

from runs.pretty import mark_of

_CLASS: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e0fff"
_HIDDEN: Final = re.compile(f"[{_CLASS}]")
_VALUE: Final = re.compile(f'value="[^"]*"|[{_CLASS}]')
_NO_REFERENCE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # HTML has no character reference for these


class Templates(backend.DjangoTemplates):
    """Django's templates; what they render passes `marked`."""

    def from_string(self, template_code: str) -> Template:
        return Template(super().from_string(template_code).template, self)

    def get_template(self, template_name: str) -> Template:
        return Template(super().get_template(template_name).template, self)


class Template(backend.Template):
    """A template whose page holds no hidden character."""

    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> str:
        return marked(super().render(context, request))


def marked(html: str) -> str:
    """The page with each hidden character as `[U+202E RLO]`; in `value="…"`, which is sent back, as a character reference."""
    return _VALUE.sub(_replace, html) if _HIDDEN.search(html) else html


def _replace(found: re.Match[str]) -> str:
    text = found.group()
    if text.startswith("value="):
        return _HIDDEN.sub(lambda m: _mark(m[0]) if _NO_REFERENCE.match(m[0]) else f"&#{ord(m[0])};", text)
    return _mark(text)


def _mark(char: str) -> str:
    return f"[{mark_of(char)}]".replace("<", "").replace(">", "")
