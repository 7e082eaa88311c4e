"""What records look like, and how often: the commonest of each range by name, the others as one number."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.explain.scan import jit

LOOKS_MAX = 500
"""Of a range, so many are told apart; fewer if it has less room."""


class Place(NamedTuple):
    """Where a look is first. Places are in the order of files, and in that of a file."""

    file: int
    offset: int
    text: str


def counted(looks: npt.NDArray[np.int64], *, compiled: bool) -> list[tuple[int, int, int]]:
    """Each one, the number of the record that it is first in, and how often it is; in the order in which they come."""
    slots = np.zeros(1 << (2 * len(looks)).bit_length(), np.int64)
    distinct, first, often = (np.zeros(len(looks), np.int64) for _ in range(3))
    count = np.zeros(1, np.int64)
    jit.run(_count, compiled, b"", (looks, slots), len(looks), len(slots) - 1, distinct, first, often, count)
    return list(zip(*(column[: count[0]].tolist() for column in (distinct, first, often)), strict=True))


def _count(
    data: Any, looks: Any, slots: Any, records: int, mask: int, distinct: Any, first: Any, often: Any, count: Any
) -> None:  # fmt: skip
    """By a table of which at least half is empty. A slot has the number of a look, counted from 1."""
    found = 0
    for record in range(records):
        look = looks[record]
        slot = (look ^ (look >> 20)) & mask
        while slots[slot] > 0 and distinct[slots[slot] - 1] != look:
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            distinct[found] = look
            first[found] = record
            found += 1
            slots[slot] = found
        often[slots[slot] - 1] += 1
    count[0] = found


@dataclass(slots=True)
class Looks:
    """Of many ranges. Whatever the order in which they are put together, it is the same."""

    often: Counter[int] = field(default_factory=Counter)
    first: dict[int, Place] = field(default_factory=dict)
    others: int = 0
    """Records whose looks were too many in their range."""

    def add(self, others: "Looks") -> None:
        self.others += others.others
        for look, count in others.often.items():
            self.often[look] += count
            place = others.first[look]
            if place < self.first.get(look, place) or look not in self.first:
                self.first[look] = place


class RangeLooks:
    """Of one range, which is read from its beginning to its end."""

    def __init__(self, known: Looks, room: int) -> None:
        self._known = known
        """Of ranges before it: what a look of theirs is first is known."""
        self._most = min(room, LOOKS_MAX)
        self._often: dict[int, int] = {}
        self._first: dict[int, Place] = {}

    def add(self, counted: Iterable[tuple[int, int, int]], place: Callable[[int], Place]) -> None:
        """Looks, in the order in which they come, with the number of the record that each is first in, and how often it is."""
        for look, record, count in counted:
            self._often[look] = self._often.get(look, 0) + count
            if look not in self._known.first and look not in self._first:
                self._first[look] = place(record)

    def close(self) -> None:
        """The commonest stay; of equals, the first."""
        order = sorted(self._often, key=lambda look: -self._often[look]) if len(self._often) > self._most else list(self._often)
        for look in order[: self._most]:
            self._known.often[look] += self._often[look]
            if look in self._first:
                self._known.first[look] = self._first[look]
        self._known.others += sum(self._often[look] for look in order[self._most :])
