"""What records look like, and how often: the commonest of each range by name, the others as one number."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

LOOKS_MAX = 500
"""Of a range, so many are told apart."""


class Place(NamedTuple):
    """Where a look is first. Places are in the order of files, and in that of a file."""

    file: int
    offset: int
    text: str


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

    def __init__(self, known: Looks) -> None:
        self._known = known
        """Of ranges before it: what a look of theirs is first is known."""
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
        order = sorted(self._often, key=lambda look: -self._often[look]) if len(self._often) > LOOKS_MAX else list(self._often)
        for look in order[:LOOKS_MAX]:
            self._known.often[look] += self._often[look]
            if look in self._first:
                self._known.first[look] = self._first[look]
        self._known.others += sum(self._often[look] for look in order[LOOKS_MAX:])
