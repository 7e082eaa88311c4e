"""Child processes that never outlive the process that started them."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import Refused

_TETHER = Path(__file__).with_name("tether.py")


def tethered(command: Sequence[str], number: signal.Signals) -> list[str]:
    """The command line that runs `command` so that the kernel sends it this signal when its owner ends, in any way.

    Call it where the process is started. Linux ties a child to the *thread* that started it: were that a worker thread,
    the child would get the signal when the worker ends, while the owner lives on. So only the main thread may.
    """
    if threading.current_thread() is not threading.main_thread():
        raise Refused(f"{command[0]} must be started from the main thread: it ends with the thread that starts it")
    return [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), str(int(number)), "--", *command]
