"""The two clocks.

Deadlines use CLOCK_BOOTTIME, which keeps counting while the machine sleeps; people read the wall clock.
Code that decides takes a time as an argument; only the edges hold a Clock.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def boottime(self) -> float:
        """Seconds since boot, sleep included. Never goes back."""

    def wall(self) -> float:
        """Seconds since the Unix epoch. For people and logs only: it may jump."""


class SystemClock:
    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return time.time()
