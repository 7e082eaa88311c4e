"""The agent's end of what ties it to its guard."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable

SIGN_OF_LIFE_S = 1.0
ORPHAN_EXIT_S = 5.0
VARIABLE = "HOLDFAST_GUARD_FD"


def tie_to_guard(stop: Callable[[], None]) -> None:
    """Show signs of life from the event loop, and stop when the guard is gone.

    A loop that hangs cannot stop by itself, so the thread that saw the guard go ends the process a few seconds later.
    """
    if VARIABLE not in os.environ:
        return
    guard = socket.socket(fileno=int(os.environ.pop(VARIABLE)))
    guard.set_inheritable(False)
    loop = asyncio.get_running_loop()

    def show_life() -> None:
        with contextlib.suppress(OSError):
            # Never waiting: a guard that is paused does not read, and the loop must not stop with it.
            guard.send(b".", socket.MSG_DONTWAIT)
        loop.call_later(SIGN_OF_LIFE_S, show_life)

    def wait_for_the_end() -> None:
        with contextlib.suppress(OSError):
            while guard.recv(64):
                pass
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop)
        threading.Event().wait(ORPHAN_EXIT_S)
        os._exit(1)

    show_life()
    threading.Thread(target=wait_for_the_end, name="guard-watch", daemon=True).start()
