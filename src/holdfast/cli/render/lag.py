"""Describe the lag of a job behind its Kafka topics."""

import json
from collections.abc import Iterable, Iterator

from holdfast.model.plural import format_count

PARTITIONS_SHOWN = 5


def facts(lags: Iterable[str], *, alive: bool) -> list[tuple[str, str]]:
    """Return (key, text) lines. The lag of a job that does not run is marked as old."""
    then = "" if alive else ", when the job last ran"
    return [("lag", sentence + then) for text in lags for sentence in _topics(text)]


def _topics(text: str) -> Iterator[str]:
    """Yield a sentence per topic. Ignore a report that is not the expected JSON."""
    try:
        topics = json.loads(text)
        for topic, partitions in topics.items():
            behind = {int(number): int(records) for number, records in partitions.items()}
            yield f"{topic}: {format_count(sum(behind.values()), 'record')} behind{_worst(behind)}"
    except (ValueError, AttributeError, TypeError, RecursionError):
        return


def _worst(behind: dict[int, int]) -> str:
    late = sorted((number for number in behind if behind[number]), key=lambda number: (-behind[number], number))
    if not late:
        return f" in {format_count(len(behind), 'partition')}"
    shown = ", ".join(f"{number}: {behind[number]:,}" for number in late[:PARTITIONS_SHOWN])
    more = f", {len(late) - PARTITIONS_SHOWN} more" if len(late) > PARTITIONS_SHOWN else ""
    return f" (partition {shown}{more})"
