"""Timers on CLOCK_BOOTTIME, which includes suspended time. Standard library only: the watchdog imports this."""

import ctypes
import os
import signal
import time

_TFD_TIMER_ABSTIME = 1
_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)
# Before version 2.34 of the GNU C library, the functions for timers are in a library of their own.
_librt = _libc if hasattr(_libc, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)


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
        if _libc.timerfd_settime(self.descriptor, _TFD_TIMER_ABSTIME, _setting(moment_s), None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")


class KillTimer:
    """Timer of the kernel that kills this process when it expires, even while the process is stopped.

    A child does not inherit the timer, and exec deletes it.
    """

    def __init__(self) -> None:
        # A sigevent is 64 bytes: a value of 8 bytes, the signal, and SIGEV_SIGNAL, which is 0.
        event = (ctypes.c_int * 16)(0, 0, int(signal.SIGKILL), 0)
        self._timer = ctypes.c_void_p()
        if _librt.timer_create(time.CLOCK_BOOTTIME, event, ctypes.byref(self._timer)) != 0:
            raise OSError(ctypes.get_errno(), "timer_create")

    def expire_at(self, moment_s: float) -> None:
        """Set the expiry, in seconds of CLOCK_BOOTTIME."""
        self._set(_setting(moment_s))

    def disarm(self) -> None:
        self._set((ctypes.c_long * 4)(0, 0, 0, 0))

    def _set(self, setting: "ctypes.Array[ctypes.c_long]") -> None:
        if _librt.timer_settime(self._timer, _TIMER_ABSTIME, setting, None) != 0:
            raise OSError(ctypes.get_errno(), "timer_settime")


def _setting(moment_s: float) -> "ctypes.Array[ctypes.c_long]":
    """Return an itimerspec: interval, then value, each in seconds and nanoseconds. A value of zero would disarm the timer."""
    whole = max(int(moment_s), 0)
    return (ctypes.c_long * 4)(0, 0, whole, max(int((moment_s - whole) * 1e9), 1))
