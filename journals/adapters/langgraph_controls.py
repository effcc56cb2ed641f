"""Commands for the LangGraph server's API that carry out a decision. Threads of the bare library are driven by their own code:
`graph.invoke(None, config)` goes on, and there is no call to stop or pin one."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control

_URL: Final = "http://SERVER/threads/{run}/runs"
_JSON: Final = ("-H", "content-type: application/json")

CONTROLS: Final = (
    Control(
        action="stop",
        does="interrupts the server's run; a node that runs now is cut off and may have acted. A thread of the library is stopped by ending its process",
        words=("curl", "-X", "POST", _URL + "/RUN_ID/cancel?wait=true&action=interrupt"),
    ),
    Control(
        action="release",
        does="goes on from the checkpoint with the largest id: its nodes without writes run again",
        words=("curl", "-X", "POST", _URL, *_JSON, "-d", '{"assistant_id":"ASSISTANT","input":null}'),
    ),
)
