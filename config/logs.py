"""Log lines for machines: one JSON object a line."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime

CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "request"}


class JsonFormatter(logging.Formatter):
    """``at``, ``level``, ``logger``, ``message``, ``process``, each ``extra=`` by its name, and ``error``.

    A value that JSON has no form for is written as its ``str``; a line break inside stays escaped, so
    that a line is always one record.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        for name, value in vars(record).items():
            if name not in STANDARD:
                line.setdefault(name, value)
        if record.exc_info and record.exc_info[0]:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """The text style for people at a terminal: one line a message, and nothing in it that a terminal obeys."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", super().formatMessage(record))


def configuration(*, level: str, style: str) -> dict[str, object]:
    """Django's LOGGING: everything to the standard error, as ``json`` or ``text``."""
    text = {"()": "config.logs.TextFormatter", "format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "config.logs.JsonFormatter"}, "text": text},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": style}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"level": level, "handlers": [], "propagate": True},
            "django.server": {"level": level, "handlers": [], "propagate": True},
            "django.utils.autoreload": {"level": "WARNING"},
            "django.request": {"level": "ERROR"},  # refusals are answers, counted in the metrics
            "celery.beat": {"level": "WARNING"},  # else two lines for each nudge, every few seconds
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "psycopg.pool": {"level": "WARNING"},
            "pgmq": {"level": "WARNING"},
        },
    }
