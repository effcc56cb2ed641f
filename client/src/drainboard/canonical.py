"""RFC 8785 (JSON Canonicalization Scheme) and digests over it. Standard library only."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from drainboard.jsontext import MAX_DEPTH, Ambiguous, Number

_SAFE_INT = 2**53 - 1


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value.

    Raises `Ambiguous` for NaN, infinities, integers beyond ±(2^53-1), numbers whose text a double does not keep,
    lone surrogates and keys that are not strings. `decode` reports duplicate keys, which a dict cannot show.
    """
    out: list[str] = []
    _canonical(value, out, 0)
    try:
        return "".join(out).encode("utf-8")
    except UnicodeEncodeError:
        raise Ambiguous("a string holds a lone surrogate, which has no UTF-8 form") from None


def _canonical(value: Any, out: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Ambiguous(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        out.append(_canonical_string(value))
    elif value is None or isinstance(value, bool):
        out.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, (int, float)):
        out.append(_canonical_number(value))
    elif isinstance(value, (list, tuple)):
        out.append("[")
        for i, item in enumerate(value):
            if i:
                out.append(",")
            _canonical(item, out, depth + 1)
        out.append("]")
    elif isinstance(value, Mapping):
        _canonical_object(value, out, depth)
    else:
        raise Ambiguous(f"{type(value).__name__} is not a JSON value")


def _canonical_object(value: Mapping[Any, Any], out: list[str], depth: int) -> None:
    if not all(isinstance(k, str) for k in value):
        raise Ambiguous("an object key is not a string")
    out.append("{")
    for i, key in enumerate(sorted(value, key=lambda k: k.encode("utf-16-be", "surrogatepass"))):
        if i:
            out.append(",")
        out.append(_canonical_string(key))
        out.append(":")
        _canonical(value[key], out, depth + 1)
    out.append("}")


_SURROGATE = re.compile("[\ud800-\udfff]")


def _canonical_string(value: str) -> str:
    if not value.isascii() and _SURROGATE.search(value):
        raise Ambiguous("a string holds a lone surrogate, which has no UTF-8 form")
    return encode_basestring(value)


def _canonical_number(value: int | float) -> str:
    if isinstance(value, Number):
        raise_for = _inexact(value.text)
        if raise_for:
            raise Ambiguous(raise_for)
        value = float(value)
    if isinstance(value, int):
        if abs(value) > _SAFE_INT:
            raise Ambiguous(f"integer {value} does not survive JSON (beyond 2^53-1); send it as a string")
        return str(value)
    if not math.isfinite(value):
        raise Ambiguous(f"{value} is not JSON")
    return _ecma_number(value)


def _inexact(text: str) -> str | None:
    """Why this number text has no single double, or None when it has (`0.10`, `1E2` do)."""
    if text.lstrip("-") in ("NaN", "Infinity"):
        return f"{text} is not JSON"
    from decimal import Decimal

    value = float(text)
    if not math.isfinite(value):
        return f"number {text} is beyond a double"
    digits = len(Decimal(text).normalize().as_tuple().digits)
    if digits > 17 and Decimal(text) != Decimal(value):
        return f"number {text} does not survive JSON; send it as a string"
    return None


def _ecma_number(value: float) -> str:
    """ECMAScript Number::toString, as RFC 8785 section 3.2.2.3 asks."""
    if value == 0:
        return "0"
    sign, value = ("-", -value) if value < 0 else ("", value)
    mantissa, exponent = f"{value!r}e0".split("e")[:2] if "e" not in repr(value) else repr(value).split("e")
    digits = mantissa.replace(".", "").lstrip("0")
    point = len(mantissa.split(".")[0]) + int(exponent)
    if mantissa.startswith("0."):
        point -= len(mantissa[2:]) - len(mantissa[2:].lstrip("0")) + 1
    digits = digits.rstrip("0") or "0"
    n, k = point, len(digits)
    if k <= n <= 21:
        text = digits + "0" * (n - k)
    elif 0 < n <= 21:
        text = f"{digits[:n]}.{digits[n:]}"
    elif -6 < n <= 0:
        text = f"0.{'0' * -n}{digits}"
    else:
        e = n - 1
        text = f"{digits[0]}{'.' + digits[1:] if k > 1 else ''}e{'+' if e > 0 else '-'}{abs(e)}"
    return sign + text


def digest_bytes(data: bytes) -> str:
    """`sha256:<64 hex>` of these bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """`sha256:<64 hex>` over the canonical form; raises `Ambiguous`."""
    return digest_bytes(canonical(value))
