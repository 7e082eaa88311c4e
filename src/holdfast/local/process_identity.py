"""Processes named by pid and start time: a pid alone may be somebody else's by now."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessName:
    pid: int
    started: int
    """Clock ticks after boot, from /proc."""

    @classmethod
    def of(cls, pid: int) -> "ProcessName | None":
        """None if there is no such process, or only a dead one that nobody has waited for."""
        try:
            # The command's name stands in brackets and may hold anything; the fields after it are plain.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        return ProcessName.of(self.pid) == self

    def send(self, number: signal.Signals) -> bool:
        """Whether the process was there to get it. By a descriptor, so that the pid cannot change hands in between."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except (OSError, OverflowError):
            return False  # gone, or no pid at all
        try:
            if not self.alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True
