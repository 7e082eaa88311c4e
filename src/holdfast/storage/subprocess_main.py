"""`python -P -m holdfast.storage.subprocess_main`: run one storage call and exit. Started by `subprocess_call`."""

import json
import os
import sys
import threading
import time
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.storage.dispatch import run_operation
from holdfast.storage.filesystem.remote_folder import TransferProgress
from holdfast.storage.location import parse_location
from holdfast.storage.subprocess_call import error_name

HEARTBEAT_INTERVAL_S = 1.0


def main() -> None:
    # Redirect standard output to standard error: the output of libraries must not mix with the reply.
    out = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    TransferProgress.report = _Heartbeat(out)
    reply = json.dumps(_reply_to(request)).encode()
    while reply:
        reply = reply[os.write(out, reply) :]


def _reply_to(request: dict[str, Any]) -> dict[str, Any]:
    notes: list[str] = []
    try:
        location = parse_location(request["location"])
        value = run_operation(request["operation"], location, request["arguments"], notes.append)
    except HoldfastError as error:
        return {"error": error_name(error), "text": str(error), "notes": notes}
    return {"value": value, "notes": notes}


class _Heartbeat:
    """Writes a heartbeat line when data moves, at most once per second."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._next = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + HEARTBEAT_INTERVAL_S
            os.write(self._out, b".\n")


def _exit_with_parent() -> None:
    """Exit when standard input ends, which happens when the parent process exits."""
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    code = 1
    try:
        main()
        code = 0
    except Exception as error:  # noqa: BLE001 - the parent shows the last line of standard error
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    # Exit without cleanup: closing an unfinished upload would publish a partial object.
    os._exit(code)
