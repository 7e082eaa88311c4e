"""Child processes that end with the process that started them."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import Refused

_MAIN = Path(__file__).with_name("parent_death_signal_main.py")


def with_parent_death_signal(command: Sequence[str], number: signal.Signals) -> list[str]:
    """Return a command line that runs `command` so that the kernel sends it this signal when its parent ends.

    Call this in the process and thread that start the command. Linux sends the signal when the parent *thread* ends, so a
    command started by a worker thread would end with the worker. Raises Refused on any thread but the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise Refused(f"{command[0]} must be started from the main thread: it gets a signal when its parent thread ends")
    return [sys.executable, "-I", "-S", str(_MAIN), str(os.getpid()), str(int(number)), "--", *command]
