"""The product itself under the examples."""

from tests.live import live, live_process  # noqa: F401
