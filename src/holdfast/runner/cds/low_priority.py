"""Stepping back behind everything else on the machine."""

import contextlib
import ctypes
import os
import platform
from pathlib import Path

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "s390x": 282, "ppc64le": 273}
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_IDLE = 3 << 13
LEAST = 19


def step_back() -> None:
    """This process and all that it starts from now on. What the kernel does not grant is done without.

    Where the kernel groups processes by session, niceness counts within a session only, and the session has one of its own:
    whoever begins a new session steps back once more, and whoever has not begun it leaves it alone.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LEAST)
    if os.getsid(0) == os.getpid():
        _write("/proc/self/autogroup", str(LEAST))
    _write("/proc/self/oom_score_adj", "1000")  # if memory runs out, this goes first
    if number := _IOPRIO_SET.get(platform.machine()):
        ctypes.CDLL(None).syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)


def _write(path: str, text: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).write_text(text)
