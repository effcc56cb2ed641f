"""What holds for every template and style sheet, whoever wrote it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.template.loader import get_template

BASE = Path(__file__).resolve().parent.parent
FOLDER = BASE / "templates"
TEMPLATES = sorted(FOLDER.rglob("*.html"))
_TAG = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_VALUE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_COMMENT = re.compile(r"\{%\s*comment\s*%\}.*?\{%\s*endcomment\s*%\}", re.DOTALL)
_BRANCHED = re.compile(r"\{%\s*(?:if|elif|else|endif|for|endfor|with|endwith)\b.*?%\}")


class Elements(HTMLParser):
    """Start tags with their attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    handle_startendtag = handle_starttag


def elements(path: Path) -> list[tuple[str, dict[str, str]]]:
    """The elements of a template; its tags become spaces inside markup and stay readable inside quoted values."""
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    text = re.sub(r'="([^"]*)"', lambda m: '="' + _quoted(m[1]) + '"', _inner_quotes(text))
    return Elements(_VALUE.sub("value", _TAG.sub(" ", text))).found


def _inner_quotes(text: str) -> str:
    """Double quotes inside template tags as single ones, so that attributes end where they end."""
    return re.sub(r"\{%.*?%\}|\{\{.*?\}\}", lambda m: m[0].replace('"', "'"), text, flags=re.DOTALL)


def _quoted(value: str) -> str:
    return (
        value.replace("{%", "[")
        .replace("%}", "]")
        .replace("{{", "[")
        .replace("}}", "]")
        .replace("<", "(")
        .replace(">", ")")
    )


def name_of(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


every_template = pytest.mark.parametrize("path", TEMPLATES, ids=name_of)


@every_template
def test_compiles(path: Path) -> None:
    assert get_template(name_of(path))


@every_template
def test_has_nothing_inline_that_the_content_security_policy_would_refuse(path: Path) -> None:
    for tag, attributes in elements(path):
        assert tag != "style", "a <style> element is refused; write it into static/css"
        assert tag != "script" or "src" in attributes, "an inline <script> is refused; write it into static/js/app.js"
        wrong = [name for name in attributes if name == "style" or name.startswith("on")]
        assert not wrong, f"<{tag}> has {wrong}, which is refused"
        assert not attributes.get("href", "").lower().startswith("javascript:")


@every_template
def test_marks_nothing_as_safe(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*safe(seq)?\b|autoescape\s+off", text), "recorded text would reach the page unescaped"


@every_template
def test_puts_no_markup_into_attributes(path: Path) -> None:
    """`visible`, `gist` and the tags make elements; inside a value they would end it. `marked` is the one for attributes."""
    text = _inner_quotes(_COMMENT.sub("", path.read_text(encoding="utf-8")))
    for value in re.findall(r'=\s*"([^"]*)"', text) + re.findall(r"block title %}(.*?){%", text):
        assert not re.search(r"\|\s*(visible|gist)\b|{%\s*(chip|digest|time|age|clock|json)\b", value), value


@every_template
def test_links_to_what_htmx_would_fetch(path: Path) -> None:
    """With no script the link opens the same address that htmx would have swapped in."""
    for tag, attributes in elements(path):
        if tag == "a" and "hx-get" in attributes:
            assert attributes["hx-get"] == attributes.get("href", "").partition("#")[0]
        if tag == "form" and "hx-get" in attributes:
            assert attributes["hx-get"] == attributes.get("action")


@every_template
def test_posts_with_a_token_against_forgery(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for form in re.findall(r"<form\b[^>]*method=\"post\".*?</form>", text, flags=re.DOTALL | re.IGNORECASE):
        assert "{% csrf_token %}" in form


@every_template
def test_gives_every_button_a_type_or_a_form(path: Path) -> None:
    """A button outside a form that lacks a type does nothing without script, and submits the wrong form inside one."""
    for tag, attributes in elements(path):
        if tag == "button" and ("data-act" in attributes or "data-copy" in attributes or "data-opens" in attributes):
            assert attributes.get("type") == "button", attributes


def test_the_script_stays_under_a_hundred_lines() -> None:
    assert len((BASE / "static/js/app.js").read_text(encoding="utf-8").splitlines()) < 100


def test_every_class_of_the_component_list_has_a_rule() -> None:
    text = (BASE / "static/css/components.css").read_text(encoding="utf-8")
    head, _, rules = text.partition("*/")
    listed = set(re.findall(r"^   \.([a-z-]+)", head, flags=re.MULTILINE))
    assert listed
    assert not {name for name in listed if f".{name}" not in rules}
