"""What every test shares: the browser's start arguments, and no address but this machine's."""

from __future__ import annotations

import os

# Playwright's synchronous API runs an event loop in this thread; Django would refuse the ORM in it.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
