"""Ordered record of a run, compact enough to keep and exact enough to compare two runs."""

import hashlib
from collections.abc import Callable

Entry = tuple[object, ...]
ENTRIES_MAX = 20_000


class Trace:
    """Trace of a run. Keeps the most recent entries; the digest also covers the earlier ones."""

    def __init__(self, now: Callable[[], float], entries_max: int = ENTRIES_MAX) -> None:
        self._now = now
        self._entries_max = entries_max
        self._earlier_digest = b""
        self.entries: list[Entry] = []

    def record(self, *what: object) -> None:
        self.entries.append((round(self._now(), 6), *what))
        if len(self.entries) > self._entries_max:
            half = self._entries_max // 2
            self._earlier_digest = self._digest_bytes(self.entries[:half])
            del self.entries[:half]

    def digest(self, *more: object) -> str:
        """Return a digest of all recorded entries and of the additional values."""
        return hashlib.sha256(self._digest_bytes(self.entries) + repr(more).encode()).hexdigest()[:16]

    def _digest_bytes(self, entries: list[Entry]) -> bytes:
        return hashlib.sha256(self._earlier_digest + repr(entries).encode()).digest()
