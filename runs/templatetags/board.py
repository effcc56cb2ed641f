"""How values are shown on every page: `{% load board %}`. Nothing here reads the database except `frame`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django import template
from django.template import Context
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, format_html_join

from journals import imports_how
from runs import pretty as shown
from runs.words import SEVERITIES, word_for

register = template.Library()

_ELEMENT = {"key": "b", "string": "i", "literal": "u"}
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
NONE = "\u2013"  # an en dash: there is no value
MINUS = "\u2212"
NARROW = "\u202f"  # a narrow space that does not break


@register.simple_tag
def manage_py() -> str:
    """The words that run a command on this server's database in another shell."""
    return imports_how.manage_py()


@register.simple_tag
def chip(state: Any, of: str = "", label: str = "", title: str = "", boxed: bool = False) -> str:
    """A state with its shape, word and sentence. `of` is run, step, verdict, approval, deploy or other."""
    return _chip(str(state or "unknown"), of, str(label), str(title), boxed)


@lru_cache(maxsize=1_024)
def _chip(state: str, of: str, label: str, title: str, boxed: bool) -> str:
    """Rows show the same few states again and again."""
    word = word_for(state, of)
    return format_html(
        '<span class="chip" data-state="{}" data-mean="{}" title="{}"{}>{}</span>',
        state,
        word.mean,
        title or word.title,
        " data-boxed" if boxed else "",
        label or word.label or state,
    )


@register.simple_tag
def run_chip(run: Any, boxed: bool = False) -> str:
    """The chip of a run's status; a run that could go on and that no worker has says that it waits for one."""
    if run.idle:
        return _chip("idle", "run", "needs a worker", "", boxed)
    foreign = "Its own runtime holds it; it is released there." if run.status == "held" and not run.native else ""
    return _chip(run.status, "run", "", foreign, boxed)


@register.filter
def mean(state: Any, of: str = "") -> str:
    """The meaning of a state: good, waiting, attention, broken or plain."""
    return word_for(str(state), of).mean


@register.filter
def severity_mean(severity: str) -> str:
    """The meaning of a finding's severity."""
    return SEVERITIES.get(severity, "plain")


@register.simple_tag
def digest(value: Any) -> str:
    """The first 8 hex characters of `sha256:…` (or of any id); the title has the whole, a click copies it."""
    text = "" if value is None else str(value)
    if not text:
        return format_html('<span class="muted">{}</span>', NONE)
    short = text.removeprefix("sha256:")[:8]
    return format_html('<button type="button" class="digest" data-copy="{}" title="{}">{}</button>', text, text, short)


def moment(value: Any) -> datetime | None:
    """A datetime out of a datetime or RFC 3339 text; None for anything else. Naive ones are taken as UTC."""
    if isinstance(value, str):
        try:
            value = parse_datetime(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def span_text(seconds: float) -> str:
    """A length of time in its largest whole unit: `12 s`, `3 m`, `2 h`, `3 d`."""
    for size, unit in _SPANS:
        if seconds >= size:
            return f"{int(seconds // size)}{NARROW}{unit}"
    return f"0{NARROW}s"


def relative_text(at: datetime, now: datetime) -> str:
    """`3 m ago`, `in 22 s`, `now`."""
    seconds = (now - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span_text(seconds)} ago" if seconds > 0 else f"in {span_text(-seconds)}"


def _time(value: Any, form: str) -> str:
    at = moment(value)
    if at is None:
        return format_html('<span class="muted">{}</span>', value or NONE)
    at = at.astimezone(UTC)
    absolute = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"
    now = timezone.now()
    text = {"ago": relative_text(at, now), "age": span_text(abs((now - at).total_seconds())), "clock": absolute}[form]
    return format_html(
        '<time datetime="{}" data-form="{}" title="{} UTC">{}</time>',
        at.isoformat().replace("+00:00", "Z"),
        form,
        absolute,
        text,
    )


@register.simple_tag
def time(value: Any) -> str:
    """`3 m ago`; hovering gives the absolute time with its zone."""
    return _time(value, "ago")


@register.simple_tag
def age(value: Any) -> str:
    """`3 m`: how long ago, for columns whose head says so."""
    return _time(value, "age")


@register.simple_tag
def clock(value: Any) -> str:
    """The absolute time to the millisecond."""
    return _time(value, "clock")


@register.filter
def duration(value: Any) -> str:
    """A timedelta, or seconds, as `40 ms`, `1.2 s`, `3 m 5 s`, `2 h 10 m`, `3 d 4 h`."""
    if value is None or value == "":
        return NONE
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0:
        return f"{MINUS}{duration(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}{NARROW}ms"
    if seconds < 60:
        return f"{seconds:.1f}{NARROW}s"
    whole = round(seconds)
    for (size, unit), (small, small_unit) in pairwise(_SPANS):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size}{NARROW}{unit}" + (f" {rest}{NARROW}{small_unit}" if rest else "")
    return f"{whole}{NARROW}s"


@register.filter
def size(value: Any) -> str:
    """Bytes as `812 B`, `9.3 kB`, `34.0 MB` (decimal units)."""
    if value is None or value == "":
        return NONE
    number = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f}{NARROW}{unit}" if unit == "B" else f"{number:.1f}{NARROW}{unit}"
        number /= 1000
    raise AssertionError("unreachable")


@register.filter
def count(value: Any) -> str:
    """A whole number with thin separators; a capped count (`Capped`) ends in `+`."""
    if value is None or value == "":
        return NONE
    return f"{int(value):,}" + ("+" if getattr(value, "capped", False) else "")


def _pieces(pieces: tuple[shown.Piece, ...]) -> str:
    """The pieces as elements; one plain piece stays a string, which the template escapes."""
    if len(pieces) == 1 and not pieces[0].role:
        return pieces[0].text
    return format_html_join("", "{}", ((_piece(piece),) for piece in pieces))


def _piece(piece: shown.Piece) -> str:
    if piece.role == "mark":
        return format_html(
            '<mark class="hidden-char" title="A character that does not show itself">{}</mark>', piece.text
        )
    if piece.role in _ELEMENT:
        return format_html("<{}>{}</{}>", _ELEMENT[piece.role], piece.text, _ELEMENT[piece.role])
    return piece.text


@register.filter
def visible(value: Any) -> str:
    """Recorded text with control, bidirectional and invisible characters marked by code point."""
    text = "" if value is None else str(value)
    return _pieces(shown.marks(text)) if text else text


@register.filter
def marked(value: Any) -> str:
    """Like `visible`, as plain text for attributes and titles: hidden characters as `[U+202E RLO]`."""
    return "".join(
        f"[{p.text}]" if p.role == "mark" else p.text for p in shown.marks("" if value is None else str(value))
    )


@register.filter
def ident(value: Any) -> str:
    """A run's id: as `visible`, with marks for spaces and line ends that a page would swallow, and a mark for an empty one."""
    return _pieces(shown.id_marks("" if value is None else str(value)))


@register.filter
def ident_text(value: Any) -> str:
    """Like `ident`, as plain text for attributes and titles."""
    return "".join(p.text for p in shown.id_marks("" if value is None else str(value)))


@register.filter
def own_words(message: Any) -> str:
    """What a refusal of ours says; '' for the words of the framework, which say nothing to people."""
    text = "" if message is None else str(message)
    framework = text in ("Resolver404", "Http404") or "matches the given query" in text or text.startswith("{")
    return "" if framework or len(text) >= 200 else text


@register.filter
def gist(text: Any) -> str:
    """One line of a JSON value to skim, keys quiet; the exact value is elsewhere on the page."""
    pieces = shown.gist("" if text is None else str(text))
    return format_html('<span class="gist">{}</span>', _pieces(pieces))


@register.simple_tag
def held(version: Any) -> str:
    """What a step's row shows of a prompt, model or tool: `page.Held`, marked where it differs from the step before."""
    if version is None:
        return ""
    if not version.changed:
        return format_html('<span class="mono" title="{}">{}</span>', version.title, version.text)
    return format_html(
        '<span class="mono changed" title="{} (changed here)"><span aria-label="changed">\u2192</span> {}</span>',
        version.title,
        version.text,
    )


@register.simple_tag
def lease(until: Any) -> str:
    """`lease ends in 22 s` or `lease ended 3 m ago`."""
    at = moment(until)
    if at is None:
        return format_html("{}", "no lease")
    return format_html("{} {}", "lease ended" if at < timezone.now() else "lease ends", _time(at, "ago"))


@register.inclusion_tag("components/json.html")
def json(raw: Any, whole_url: str = "", label: str = "", limit: int | None = shown.SHOWN_BYTES) -> dict[str, Any]:
    """Pretty JSON of raw bytes (or text); a long value is cut, and says so with a link to the whole."""
    data = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else bytes(raw or b"")
    made = shown.pretty(data, limit=limit)
    return {
        "body": _pieces(made.pieces),
        "cut": made.cut,
        "size": made.size_bytes,
        "shown": limit,
        "whole_url": whole_url,
        "label": label,
    }


@register.simple_tag(takes_context=True)
def query(context: Context, **changes: Any) -> str:
    """The present address's query with some names changed; an empty value takes the name off. Paging is dropped."""
    params = context["request"].GET.copy()
    for name in ("after", "before", "v"):
        params.pop(name, None)
    for name, value in changes.items():
        params.pop(name, None)
        if value not in (None, ""):
            params[name] = str(value)
    return f"?{params.urlencode()}" if params else "?"


@register.simple_tag
def url_or_none(name: str, *args: Any) -> str:
    """The address of a page of another part, or '' where that part is not installed."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""


@register.filter
def sheets(names: str) -> list[str]:
    """Paths of style sheets, in order, from their names."""
    return [f"css/{name}.css" for name in names.split()]


@register.filter
def names(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


@register.filter
def item(mapping: Any, key: Any) -> Any:
    """A mapping's value, or '' without it."""
    return mapping.get(key, "")


_EFFECTS = {
    "none": "no effect outside",
    "one": "one effect outside is proven",
    "at_least_one": "at least one effect outside is proven",
    "unknown": "effects outside are not proven",
}


@register.filter
def effects_words(effects: str) -> str:
    """What the journal proves about the outside world."""
    return _EFFECTS.get(effects or "unknown", effects)


@register.filter
def place_of(decision: dict[str, Any]) -> str:
    """The address part of a decision's entry: several entries of a run may have its number."""
    detail = decision["detail"]
    return f"{detail['entry']}-{detail['pos']}"


@register.filter
def is_decision(kind: str) -> bool:
    """Kinds that are decisions when they are made here, and claims in an imported file."""
    return kind.startswith(("deploy.", "stop.", "gap.")) or kind in {
        "approval.decided",
        "approval.used",
        "approval.expired",
        "approval.withdrawn",
        "run.held",
    }


@register.filter
def line_text(raw: bytes) -> str:
    """A journal line as text; bytes that are not UTF-8 are shown as escapes, long lines are cut and say so."""
    text = raw[:4_000].decode("utf-8", "backslashreplace")
    return text if len(raw) <= 4_000 else f"{text}… ({len(raw):,} bytes)"


@register.filter
def at(filters: Any, change: str) -> str:
    """The list's address for a status (`failed`) or a view (`view=in_flight`), in the filter's environment."""
    name, _, value = change.rpartition("=")
    return str(filters.url(**{name or "status": value}))


@register.filter
def sentence(state: str, of: str = "run") -> str:
    """What a state means, in one sentence."""
    return word_for(state, of).title


_ROLES = {
    "viewer": "sees every page",
    "operator": "decides about runs and deploys: pin, continue, stop, resolve",
    "approver": "decides approvals",
    "admin": "does all of it, and keeps accounts and tokens",
}


@register.filter
def role_words(role: str) -> str:
    """What a role may do."""
    return _ROLES.get(role, "")


@register.filter
def past(row: Any) -> bool:
    """The row has an `expires_at` and it is over."""
    until = moment(getattr(row, "expires_at", None))
    return until is not None and until <= timezone.now()
