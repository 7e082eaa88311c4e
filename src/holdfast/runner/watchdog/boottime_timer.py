"""Timer on CLOCK_BOOTTIME, which includes suspended time. Standard library only: the watchdog imports this."""

import ctypes
import os
import time

_TFD_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class BoottimeTimer:
    """Timer whose descriptor becomes readable when it expires. Python has no timerfd before 3.13."""

    def __init__(self) -> None:
        self.descriptor = _libc.timerfd_create(time.CLOCK_BOOTTIME, os.O_CLOEXEC | os.O_NONBLOCK)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def expire_at(self, moment_s: float) -> None:
        """Set the expiry, in seconds of CLOCK_BOOTTIME."""
        # Interval, then value, each in seconds and nanoseconds. A value of zero would disarm the timer.
        whole = max(int(moment_s), 0)
        setting = (ctypes.c_long * 4)(0, 0, whole, max(int((moment_s - whole) * 1e9), 1))
        if _libc.timerfd_settime(self.descriptor, _TFD_TIMER_ABSTIME, setting, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
