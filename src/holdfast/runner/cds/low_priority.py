"""Lowest CPU, disk and memory priority for the current process."""

import contextlib
import ctypes
import os
import platform
from pathlib import Path

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "s390x": 282, "ppc64le": 273}
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_IDLE = 3 << 13
LOWEST_PRIORITY = 19


def lower_priority() -> None:
    """Lower the priority of this process and of its future children. Errors are ignored.

    With the kernel's autogroups, niceness counts only within a session, and each session has its own niceness. So a
    session leader also lowers its session. Other processes must not, because the session is not theirs.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    if os.getsid(0) == os.getpid():
        _write("/proc/self/autogroup", str(LOWEST_PRIORITY))
    _write("/proc/self/oom_score_adj", "1000")  # the first process to be killed when memory runs out
    if number := _IOPRIO_SET.get(platform.machine()):
        ctypes.CDLL(None).syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)


def _write(path: str, text: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).write_text(text)
