#!/usr/bin/env python3
"""Entry to Django's commands.

Without DATABASE_URL the command attaches to the embedded PostgreSQL of the data folder
(DRAINBOARD_DATA, default ``.drainboard``) and starts it for its own duration if needed.
"""

import os
import sys


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
