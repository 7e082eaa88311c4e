"""Agent's end of the socket pair that connects it to its guard."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable

from holdfast.node.guard.guard_process import GUARD_FD_VARIABLE

HEARTBEAT_INTERVAL_S = 1.0
ORPHAN_EXIT_S = 5.0


def connect_to_guard(stop: Callable[[], None]) -> None:
    """Send heartbeats to the guard from the event loop, and call `stop` when the guard dies.

    An event loop that hangs cannot stop itself, so a thread ends the process `ORPHAN_EXIT_S` seconds after the guard's death.
    """
    if GUARD_FD_VARIABLE not in os.environ:
        return
    guard = socket.socket(fileno=int(os.environ.pop(GUARD_FD_VARIABLE)))
    guard.set_inheritable(False)
    loop = asyncio.get_running_loop()

    def send_heartbeat() -> None:
        with contextlib.suppress(OSError):
            # Non-blocking: a paused guard does not read, and must not block the event loop.
            guard.send(b".", socket.MSG_DONTWAIT)
        loop.call_later(HEARTBEAT_INTERVAL_S, send_heartbeat)

    def exit_with_guard() -> None:
        with contextlib.suppress(OSError):
            while guard.recv(64):
                pass
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop)
        threading.Event().wait(ORPHAN_EXIT_S)
        os._exit(1)

    send_heartbeat()
    threading.Thread(target=exit_with_guard, name="guard-watch", daemon=True).start()
