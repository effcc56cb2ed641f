#!/usr/bin/env python3
"""Entry to Django's commands.

Without DATABASE_URL the command attaches to the embedded PostgreSQL of the data folder
(DRAINBOARD_DATA, default ``.drainboard``) and starts it for its own duration if needed.
"""

import os
import sys
from pathlib import Path

NO_SUCH = ("42P01", "42703", "42883")  # PostgreSQL's undefined table, column, function


def main() -> int:
    """Run one command; what keeps it from starting is said in one sentence, without a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import psycopg
    from django.core.management import execute_from_command_line
    from django.db import ProgrammingError

    from config.account import AccountUnusable
    from config.attach import attached
    from config.embedded import DataFolderUnusable, ServerBusy, ServerFailed
    from config.env import BadSetting

    try:
        with attached(sys.argv, base=Path(__file__).resolve().parent):
            execute_from_command_line(sys.argv)
    except (AccountUnusable, BadSetting, DataFolderUnusable, ServerBusy, ServerFailed) as error:
        sys.stderr.write(f"drainboard: {error}\n")
        return 2
    except (ProgrammingError, psycopg.ProgrammingError) as error:
        if getattr(error.__cause__ or error, "sqlstate", "") not in NO_SUCH:
            raise
        sys.stderr.write(
            f"drainboard: the database has no tables of this release: run manage.py prepare ({str(error).splitlines()[0]})\n"
        )
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
