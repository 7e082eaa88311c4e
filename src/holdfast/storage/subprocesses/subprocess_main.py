"""`python -P -m holdfast.storage.subprocesses.subprocess_main`: run storage calls and exit. Started by `storage_process`."""

import json
import os
import queue
import sys
import threading
import time
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.storage.filesystem.remote_folder import TransferProgress
from holdfast.storage.location import parse_location
from holdfast.storage.subprocesses.dispatch import run_operation
from holdfast.storage.subprocesses.storage_process import HEARTBEAT, IDLE_EXIT_STATUS, IDLE_TIMEOUT_S, KEEP
from holdfast.storage.subprocesses.subprocess_call import error_name

HEARTBEAT_INTERVAL_S = 1.0


def main() -> int:
    """Serve the requests. Return the exit status."""
    # Redirect standard output to standard error: the output of libraries must not mix with the reply.
    out = os.dup(1)
    os.dup2(2, 1)
    TransferProgress.report = _Heartbeat(out)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    timeout_s = None
    while True:
        try:
            request = requests.get(timeout=timeout_s)
        except queue.Empty:
            return IDLE_EXIT_STATUS
        reply = json.dumps(_reply_to(request)).encode() + b"\n"
        while reply:
            reply = reply[os.write(out, reply) :]
        if not request.get(KEEP):
            return 0
        timeout_s = IDLE_TIMEOUT_S


def _reply_to(request: dict[str, Any]) -> dict[str, Any]:
    notes: list[str] = []
    try:
        location = parse_location(request["location"])
        value = run_operation(request["operation"], location, request["arguments"], notes.append)
    except HoldfastError as error:
        return {"error": error_name(error), "text": str(error), "notes": notes}
    return {"value": value, "notes": notes}


class _Heartbeat:
    """Writer of a heartbeat line when data moves, at most one per second."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._next = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + HEARTBEAT_INTERVAL_S
            os.write(self._out, HEARTBEAT)


def _read_requests(requests: "queue.SimpleQueue[dict[str, Any]]") -> None:
    """Read requests, and exit when standard input ends, which happens when the parent process exits."""
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    os._exit(1)


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    except Exception as error:  # noqa: BLE001 -- the parent shows the last line of standard error
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    # Exit without cleanup: closing an unfinished upload would publish a partial object.
    os._exit(code)
