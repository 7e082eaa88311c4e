"""Work for Spark: which bytes of which files are one task. It depends on the files alone, so that the answer does, too."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.explain.inputs import Input

RANGE_BYTES = 32 * 1024 * 1024
RANGES_MAX = 16 * 1024
"""So many are enough. If there is more to read, they are larger."""
ROOM = 400_000
"""So many events are sent back of all ranges together; and as many looks, and as many counts of what is not sent."""
ROOM_MIN = 50
"""Of one range."""


class Range(NamedTuple):
    """Of a file: what begins in [begin, end). A compressed file is one, whatever it holds."""

    file: int
    path: str
    compression: str
    begin: int
    end: int
    beginning: bytes = b""
    """What the file must begin with, if whoever reads it might have another one of that name."""
    room: int = ROOM
    """How many events it may send back: its share."""


Task = tuple[Range, ...]
TOGETHER_MAX = 16
"""So many are one task at most: what is lost with a worker is read again."""


def tasks(inputs: Iterable[Input]) -> list[Task]:
    """Large files in parts, small ones together."""
    all = list(inputs)
    total = sum(one.size for one in all)
    largest = max(RANGE_BYTES, -(-total // RANGES_MAX))
    parts = [part for number, one in enumerate(all) for part in _parts(number, one, largest)]
    found: list[Task] = []
    small: list[Range] = []
    together = 0
    for unshared in parts:
        size = unshared.end - unshared.begin
        part = unshared._replace(room=_share(size, total, len(parts)))
        if size >= RANGE_BYTES // 2:
            found.append((part,))
            continue
        if together + size > RANGE_BYTES and small:
            found.append(tuple(small))
            small, together = [], 0
        small.append(part)
        together += size
    if small:
        found.append(tuple(small))
    return found


def _share(size: int, total: int, ranges: int) -> int:
    """By its size, but no less than if all were alike: a coordinator's log is small beside its workers', and says more."""
    return max(ROOM * size // max(total, 1), ROOM // ranges, ROOM_MIN)


def _parts(number: int, one: Input, largest: int) -> Iterator[Range]:
    if one.compression or one.size <= largest:
        yield Range(number, one.path, one.compression, 0, one.size)
        return
    for begin in range(0, one.size, largest):
        yield Range(number, one.path, "", begin, min(begin + largest, one.size))


def in_turns(tasks: list[Task], workers: int) -> list[Task]:
    """The same work in fewer tasks, because each costs Spark a tenth of a second: large ones first, small ones towards the end,
    so that all workers end at about the same time."""
    found: list[Task] = []
    while tasks:
        share = min(TOGETHER_MAX, -(-3 * len(tasks) // (4 * workers)))
        found.append(tuple(part for task in tasks[:share] for part in task))
        tasks = tasks[share:]
    return found
