"""`manage.py create_token NAME --scope worker|ci|read`: makes an API token and prints its secret once."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from journals import access, errors


class Command(BaseCommand):
    help = "Make an API token. Its secret is printed once and not kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--scope", required=True, choices=list(access.SCOPES))
        parser.add_argument("--agent", default="", help="only runs of this agent (default: all)")
        parser.add_argument("--environment", default="", help="only runs of this environment (default: all)")
        parser.add_argument("--days", type=int, default=90, help="days until it expires, at most 90")
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made, secret = access.create_token(
                options["name"], scope=options["scope"], created_by="command line", agent=options["agent"],
                environment=options["environment"], days=options["days"],
            )  # fmt: skip
        except errors.Refused as e:
            raise CommandError(e.message) from None
        if options["json"]:
            answer = {
                "id": made.id,
                "name": made.name,
                "scope": made.scope,
                "token": secret,
                "expires_at": made.expires_at.isoformat() if made.expires_at else None,
            }
            self.stdout.write(json.dumps(answer))
        else:
            self.stdout.write(secret)
