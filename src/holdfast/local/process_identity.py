"""Identity of a process: pid and start time. A pid alone may have been reused for another process."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    pid: int
    started: int
    """Start time in clock ticks after boot, from /proc."""

    @classmethod
    def read(cls, pid: int) -> "ProcessIdentity | None":
        """Return the identity of a running process; None if it does not exist or is a zombie."""
        try:
            # The command name is in parentheses and may contain any character; the fields after it do not.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def is_alive(self) -> bool:
        return ProcessIdentity.read(self.pid) == self

    def send_signal(self, number: signal.Signals) -> bool:
        """Send a signal. Return False if the process has ended.

        A pidfd prevents the signal from reaching another process that reuses the pid.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except (OSError, OverflowError):
            return False  # ended, or not a valid pid
        try:
            if not self.is_alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True
