"""Any Python string as text that PostgreSQL can hold, and back.

PostgreSQL refuses U+0000, and UTF-8 has no lone surrogates; run ids and entry ids may hold both. Injective: two different
strings never meet in the database, so unique constraints mean what they say.
"""

from __future__ import annotations

_MARK = "\\x"


def encode_text(value: str) -> str:
    """The string itself where PostgreSQL can hold it, else `\\x` and the hex of its bytes (surrogates passed)."""
    if "\0" not in value and not value.startswith(_MARK):
        if value.isascii():
            return value
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return _MARK + value.encode("utf-8", "surrogatepass").hex()
        return value
    return _MARK + value.encode("utf-8", "surrogatepass").hex()


def decode_text(stored: str) -> str:
    """What `encode_text` was given."""
    return bytes.fromhex(stored[2:]).decode("utf-8", "surrogatepass") if stored.startswith(_MARK) else stored
