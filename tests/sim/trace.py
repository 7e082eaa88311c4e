"""What happened, in order: short enough to keep, exact enough to compare two runs."""

import hashlib
from collections.abc import Callable

Entry = tuple[object, ...]
ENTRIES_MAX = 20_000


class Trace:
    """Keeps the last entries, and folds the earlier ones into its digest."""

    def __init__(self, now: Callable[[], float], entries_max: int = ENTRIES_MAX) -> None:
        self._now = now
        self._entries_max = entries_max
        self._folded = b""
        self.entries: list[Entry] = []

    def record(self, *what: object) -> None:
        self.entries.append((round(self._now(), 6), *what))
        if len(self.entries) > self._entries_max:
            half = self._entries_max // 2
            self._folded = self._fold(self.entries[:half])
            del self.entries[:half]

    def digest(self, *more: object) -> str:
        """Of everything recorded so far, and of whatever else must agree."""
        return hashlib.sha256(self._fold(self.entries) + repr(more).encode()).hexdigest()[:16]

    def _fold(self, entries: list[Entry]) -> bytes:
        return hashlib.sha256(self._folded + repr(entries).encode()).digest()
