"""`python -m drainboard` is the `drainboard` command."""

import sys

from drainboard.cli import main

sys.exit(main())
