"""Clock that a test sets."""

from dataclasses import dataclass


@dataclass
class SettableClock:
    now: float = 1000.0

    def boottime(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now
