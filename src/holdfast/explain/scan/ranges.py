"""Split input files into byte ranges and group these into tasks.

Ranges and tasks depend on the files alone, not on the cluster, so that the answer does, too.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.explain.inputs import InputFile
from holdfast.explain.scan.event_budget import EVENTS_MAX, range_event_limit

RANGE_BYTES = 32 * 1024 * 1024
RANGES_MAX = 16 * 1024
"""Number of ranges above which ranges become larger instead of more."""


class ByteRange(NamedTuple):
    """Lines and records of a file that start in [begin, end). A compressed file is always one range."""

    file: int
    path: str
    compression: str
    begin: int
    end: int
    expected_prefix: bytes = b""
    """First bytes of the file, if the reader may find another file at the same path."""
    event_limit: int = EVENTS_MAX
    """Number of events that the range may return."""


ScanTask = tuple[ByteRange, ...]
BATCH_MAX = 16
"""Tasks that one Spark task combines at most: if a worker is lost, its task is read again."""


def plan_tasks(inputs: Iterable[InputFile]) -> list[ScanTask]:
    """Split large files into ranges, and combine small files into one task."""
    files = list(inputs)
    total = sum(file.size for file in files)
    largest = max(RANGE_BYTES, -(-total // RANGES_MAX))
    ranges = [one for number, file in enumerate(files) if not file.problem for one in _split(number, file, largest)]
    tasks: list[ScanTask] = []
    small: list[ByteRange] = []
    small_bytes = 0
    for unlimited in ranges:
        size = unlimited.end - unlimited.begin
        one = unlimited._replace(event_limit=range_event_limit(size, total, len(ranges)))
        if size >= RANGE_BYTES // 2:
            tasks.append((one,))
            continue
        if small_bytes + size > RANGE_BYTES and small:
            tasks.append(tuple(small))
            small, small_bytes = [], 0
        small.append(one)
        small_bytes += size
    if small:
        tasks.append(tuple(small))
    return tasks


def _split(number: int, file: InputFile, largest: int) -> Iterator[ByteRange]:
    if file.compression or file.size <= largest:
        yield ByteRange(number, file.path, file.compression, 0, file.size)
        return
    for begin in range(0, file.size, largest):
        yield ByteRange(number, file.path, "", begin, min(begin + largest, file.size))


def batch_tasks(tasks: list[ScanTask], workers: int) -> list[ScanTask]:
    """Combine tasks, because each one costs Spark a tenth of a second.

    Batches become smaller towards the end, so that all workers finish at about the same time."""
    batches: list[ScanTask] = []
    while tasks:
        share = min(BATCH_MAX, -(-3 * len(tasks) // (4 * workers)))
        batches.append(tuple(one for task in tasks[:share] for one in task))
        tasks = tasks[share:]
    return batches
