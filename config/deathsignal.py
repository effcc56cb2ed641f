"""Children that do not outlive the process which started them, however it ends."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def tied_to_parent(number: signal.Signals) -> Callable[[], None] | None:
    """A ``preexec_fn``: the kernel sends the signal to the child when its parent dies, even by SIGKILL.

    Linux sends it when the *thread* that started the child ends, so start children in the main thread.
    None on other systems; there the next start stops what was left behind.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here: nothing may be imported after the fork
    parent = os.getpid()

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it died between the fork and the call
            os._exit(1)

    return tie


def tie_this_process(number: signal.Signals) -> None:
    """Be signalled when our parent dies, and end now if it is dead. Nothing where the kernel cannot."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os._exit(1)
