"""Trigger of a streaming query: the kind of execution, and how long its batches last.

PySpark offers no way to read the trigger of a writer or of a Connect query, so the arguments of `trigger` are recorded.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

TriggerKind = Literal["micro-batch", "real-time", "continuous"]

REAL_TIME_BATCH_S = 300.0
"""Batch duration of Spark's real-time trigger without an argument. It also counts for a duration that cannot be parsed."""
_SECONDS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 604800.0,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s+([a-z]+?)s?(?=\s|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Trigger:
    kind: TriggerKind = "micro-batch"
    batch_s: float = 0.0
    """Seconds that a batch of a real-time query lasts even without data. Other queries have no fixed duration: 0."""


MICRO_BATCH = Trigger()


def trigger_of(arguments: Mapping[str, Any]) -> Trigger:
    """Return the trigger for the arguments of `DataStreamWriter.trigger`."""
    if (duration := arguments.get("realTime")) is not None:
        return Trigger("real-time", interval_s(str(duration)) or REAL_TIME_BATCH_S)
    return Trigger("continuous") if arguments.get("continuous") is not None else MICRO_BATCH


def interval_s(text: str) -> float | None:
    """Return the seconds of an interval of Spark, for example `1 minute 30 seconds`, or None if it cannot be parsed."""
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    total_s, end = 0.0, 0
    for part in _PART.finditer(rest):
        if part.start() != end or part[2].lower() not in _SECONDS:
            return None
        total_s, end = total_s + float(part[1]) * _SECONDS[part[2].lower()], part.end()
    return total_s if end and not rest[end:].strip() else None
