"""Clocks.

Deadlines use CLOCK_BOOTTIME, which keeps counting while the machine sleeps. The wall clock is only for display and logs.
Decisions take the time as an argument; only the code around them holds a Clock.
"""

import time
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    def boottime(self) -> float:
        """Return seconds since boot, including sleep. Monotonic."""

    def wall(self) -> float:
        """Return seconds since the Unix epoch. For display and logs only: the clock may jump."""


class SystemClock:
    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return time.time()


def boot_id() -> str:
    """Return the identity of this boot. Values of CLOCK_BOOTTIME are comparable only within one boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
