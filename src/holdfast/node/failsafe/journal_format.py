"""Format of the promise journal. Pure.

The first line is a header with all promises in force; each further line adds the promises of one batch. A line consists of a
checksum and JSON. Any other content is damage: promises may be missing.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.identifiers import Attempt, JobId

_ENCODER = json.JSONEncoder(separators=(",", ":"))


class DamagedJournal(ValueError):
    """The journal does not contain everything that was written to it."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Promise to start no attempt of a job later than `attempt` before `until` (seconds of CLOCK_BOOTTIME)."""

    attempt: Attempt
    until: float
    period_s: float

    def union(self, later: "Promise | None") -> "Promise":
        """Return the union of both promises. A later promise never shortens an earlier one."""
        if later is None:
            return self
        return Promise(max(self.attempt, later.attempt), max(self.until, later.until), max(self.period_s, later.period_s))


@dataclass(slots=True)
class JournalContent:
    boot: str
    no_start_before: float
    """Time before which no attempt may start, because earlier promises were lost; minus infinity if none were."""
    promises: dict[JobId, Promise] = field(default_factory=dict)
    period_s_max: float = 0.0
    """Longest period of all promises, including those that were lost."""


def encode_header(content: JournalContent) -> bytes:
    return _encode_line(
        {
            "boot": content.boot,
            "no_start_before": max(content.no_start_before, 0.0),
            "period_s_max": content.period_s_max,
            "promises": {job: [each.attempt, each.until, each.period_s] for job, each in content.promises.items()},
        }
    )


def encode_batch(attempts: Mapping[JobId, Attempt], *, until: float, period_s: float) -> bytes:
    return _encode_line({"until": until, "period_s": period_s, "attempts": dict(attempts)})


def decode_journal(data: bytes) -> JournalContent:
    """Return the content of a journal. Raises DamagedJournal."""
    try:
        return _decode(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedJournal(str(error)) from error


def decode_legacy_file(data: bytes) -> JournalContent:
    """Return the content of `promises.json`, in which earlier releases kept all promises. Raises DamagedJournal."""
    try:
        fields = json.loads(data)
        content = JournalContent(str(fields["boot"]), float("-inf"))
        for job, each in fields["promises"].items():
            _add(content, job, each["attempt"], each["until"], each["period_s"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedJournal(str(error)) from error
    return content


def _decode(data: bytes) -> JournalContent:
    if not data.endswith(b"\n"):
        raise ValueError("the last line is incomplete")
    header, *batches = (_decode_line(line) for line in data[:-1].split(b"\n"))
    content = JournalContent(str(header["boot"]), float(header["no_start_before"]), period_s_max=float(header["period_s_max"]))
    for job, (attempt, until, period_s) in header["promises"].items():
        _add(content, job, attempt, until, period_s)
    for batch in batches:
        for job, attempt in batch["attempts"].items():
            _add(content, job, attempt, batch["until"], batch["period_s"])
    return content


def _add(content: JournalContent, job: str, attempt: Any, until: Any, period_s: Any) -> None:
    promise = Promise(Attempt(int(attempt)), float(until), float(period_s))
    content.promises[JobId(job)] = promise.union(content.promises.get(JobId(job)))
    content.period_s_max = max(content.period_s_max, promise.period_s)


def _encode_line(fields: dict[str, Any]) -> bytes:
    data = _ENCODER.encode(fields).encode()
    return b"%08x %s\n" % (zlib.crc32(data), data)


def _decode_line(line: bytes) -> Any:
    checksum, _, data = line.partition(b" ")
    if int(checksum, 16) != zlib.crc32(data):
        raise ValueError("a checksum is wrong")
    return json.loads(data)
