"""Messages between a driver and its Kafka monitor: one JSON object per line, on the monitor's standard input and output.

The queries' options may contain passwords. So they travel through this pipe, never through a file or an environment variable.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OFFSET_CHECK_NAME = "kafka-offsets"
"""Name by which a job disables the monitor (`variables.GUARDS_OFF`)."""


@dataclass(frozen=True, slots=True)
class MonitoredQuery:
    location: str
    """Checkpoint location without a trailing slash; empty if the query has none. Every answer refers to the query by it."""
    label: str
    sources: tuple[dict[str, Any], ...]
    """Kafka sources: `number` (line in each offsets file), `folder` (in the checkpoint's `sources`), `options`, and `name`."""


# From the driver to the monitor


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """Request to check a query's offsets from now on."""

    query: MonitoredQuery
    before_start: bool
    """True if the driver waits for `StartAllowed` before it starts the query; False if the query is running."""

    def to_json(self) -> dict[str, Any]:
        query = {"location": self.query.location, "label": self.query.label, "sources": list(self.query.sources)}
        return {"guard": query, "gate": self.before_start}


@dataclass(frozen=True, slots=True)
class DiagnoseFailure:
    """Request for the cause of a failure that has just happened: Kafka or not. The answer is `FailureDiagnosis`."""

    def to_json(self) -> dict[str, Any]:
        return {"why": True}


MonitorRequest = WatchQuery | DiagnoseFailure


def parse_request(line: bytes) -> MonitorRequest | None:
    """Return None for an unknown request. Raise ValueError, KeyError or TypeError for a line that no driver sends."""
    fields = json.loads(line)
    if "guard" in fields:
        query = fields["guard"]
        monitored = MonitoredQuery(str(query["location"]), str(query["label"]), tuple(query["sources"]))
        return WatchQuery(monitored, before_start=bool(fields.get("gate", True)))
    return DiagnoseFailure() if "why" in fields else None


# From the monitor to the driver


@dataclass(frozen=True, slots=True)
class StartAllowed:
    location: str

    def to_json(self) -> dict[str, Any]:
        return {"go": self.location}


@dataclass(frozen=True, slots=True)
class QueryRejected:
    """The monitor cannot check this query, so the query must not start."""

    location: str
    reason: str
    node_lacks_dependency: bool = False
    """True if only this node cannot check the query, False if the query's own options are the cause."""

    def to_json(self) -> dict[str, Any]:
        here = {"here": False} if self.node_lacks_dependency else {}
        return {"refused": self.location, "sentence": self.reason, **here}


@dataclass(frozen=True, slots=True)
class ParkRequired:
    """The query's offsets no longer refer to the same records: the driver must end, and an operator must choose."""

    location: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"park": self.location, "sentence": self.reason}


@dataclass(frozen=True, slots=True)
class FailureDiagnosis:
    verdict: str
    """`go` if Kafka is healthy, `wait` if it is unavailable, `park` if data is lost (`kafka.check.park_policy.ParkVerdict`)."""
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"why": {"verdict": self.verdict, "sentence": self.reason}}


MonitorAnswer = StartAllowed | QueryRejected | ParkRequired | FailureDiagnosis


def parse_answer(line: bytes) -> MonitorAnswer | None:
    """Return None for a line that is no answer. Never raise."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, Mapping):
        return None
    reason = str(fields.get("sentence", ""))
    if "park" in fields:
        return ParkRequired(str(fields["park"]), reason)
    if "refused" in fields:
        return QueryRejected(str(fields["refused"]), reason, node_lacks_dependency=not fields.get("here", True))
    if "go" in fields:
        return StartAllowed(str(fields["go"]))
    diagnosis = fields.get("why")
    if isinstance(diagnosis, Mapping):
        return FailureDiagnosis(str(diagnosis.get("verdict")), str(diagnosis.get("sentence")))
    return None


def encode_message(message: MonitorRequest | MonitorAnswer) -> bytes:
    """Return the message as one line, with its newline."""
    return json.dumps(message.to_json()).encode() + b"\n"
