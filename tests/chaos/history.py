"""Recorded history of a run: JSON lines on disk, and the typed records that the checkers read.

A run's directory has `history.jsonl` (run, faults, operations and job states), `witness.jsonl` (processes that the witness saw)
and `heartbeats/JOB.jsonl` (written by the drivers themselves). All times are seconds of CLOCK_BOOTTIME.
"""

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HISTORY_NAME = "history.jsonl"
WITNESS_NAME = "witness.jsonl"
HEARTBEATS_NAME = "heartbeats"

ACKNOWLEDGED = "acknowledged"
REFUSED = "refused"
UNKNOWN = "unknown"
"""Outcome of an operation whose reply was lost: it may or may not have been carried out."""


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Settings of a run."""

    seed: int
    kinds: tuple[str, ...]
    session_timeout_s: float
    margin_s: float
    started_at: float


@dataclass(frozen=True, slots=True)
class SteadyJob:
    """Job that users leave alone for the whole run, so that every restart has a fault as its cause."""

    job: str
    name: str


@dataclass(frozen=True, slots=True)
class Signalled:
    """Process that a fault has signalled."""

    role: str
    pid: int
    node: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """Fault that was injected and healed, and the recovery after it."""

    number: int
    kind: str
    duration: str
    """Planned duration, such as `1.5 T`; empty for a kill."""
    injected_at: float
    healed_at: float
    recovered_at: float | None
    """Time at which all jobs were healthy again; None if that took longer than `bound_s`."""
    bound_s: float
    may_restart: tuple[str, ...]
    """Steady jobs that the fault may restart. Every other job keeps its driver."""
    targets: tuple[Signalled, ...]
    problem: str = ""
    """Last reason for which the cluster was not healthy."""
    must_move: tuple[str, ...] = ()
    """Steady jobs of a node that is lost permanently: each starts elsewhere within `move_bound_s`, while the fault lasts."""
    move_bound_s: float = 0.0


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """Request of a user, with its outcome."""

    name: str
    """`submit`, `cancel`, `stop`, `resume`, or `ended`: the user saw the job in a final phase."""
    job: str
    request: str
    started_at: float
    ended_at: float
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class JobSample:
    """State of a job in ZooKeeper, recorded when it changes."""

    at: float
    job: str
    phase: str
    attempt: int
    restarts: int


@dataclass(frozen=True, slots=True)
class WitnessedProcess:
    """Process of an attempt, and the first and last time at which the kernel listed it as alive.

    It died after `last_seen`, and not after `gone_at`, the first scan without it; None if it was alive in the last scan.
    """

    job: str
    attempt: int
    nonce: str
    pid: int
    is_driver: bool
    first_seen: float
    last_seen: float
    gone_at: float | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatSeries:
    """Heartbeats that one driver has written."""

    job: str
    attempt: int
    nonce: str
    pid: int
    times: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class History:
    run: RunRecord
    steady: tuple[SteadyJob, ...] = ()
    faults: tuple[FaultRecord, ...] = ()
    operations: tuple[OperationRecord, ...] = ()
    samples: tuple[JobSample, ...] = ()
    processes: tuple[WitnessedProcess, ...] = ()
    heartbeats: tuple[HeartbeatSeries, ...] = ()
    longest_gap_s: float = 0.0
    """Longest time between two scans of the witness."""
    ended_at: float = field(default=0.0)
    """Last time at which the witness scanned."""


Recordable = RunRecord | SteadyJob | FaultRecord | OperationRecord | JobSample


class HistoryWriter:
    """Thread-safe writer of `history.jsonl`. Each record is one line, flushed at once."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = (directory / HISTORY_NAME).open("a")
        self._lock = threading.Lock()

    def add(self, record: Recordable) -> None:
        line = json.dumps({"record": type(record).__name__, **dataclasses.asdict(record)})
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        self._file.close()


def load_history(directory: Path) -> History:
    """Read the files of a run. A last line that is cut off is ignored."""
    records: dict[str, list[Any]] = {kind.__name__: [] for kind in (RunRecord, SteadyJob, OperationRecord, JobSample)}
    faults: list[FaultRecord] = []
    for fields in read_json_lines(directory / HISTORY_NAME):
        name = fields.pop("record")
        if name == FaultRecord.__name__:
            targets = tuple(Signalled(**target) for target in fields.pop("targets"))
            jobs = {name: tuple(fields.get(name, ())) for name in ("may_restart", "must_move")}
            faults.append(FaultRecord(**{**fields, **jobs}, targets=targets))
        elif name == RunRecord.__name__:
            records[name].append(RunRecord(**{**fields, "kinds": tuple(fields["kinds"])}))
        else:
            records[name].append(
                {"SteadyJob": SteadyJob, "OperationRecord": OperationRecord, "JobSample": JobSample}[name](**fields)
            )
    processes, longest_gap_s, ended_at = load_witness(directory / WITNESS_NAME)
    return History(
        run=records["RunRecord"][0],
        steady=tuple(records["SteadyJob"]),
        faults=tuple(faults),
        operations=tuple(records["OperationRecord"]),
        samples=tuple(records["JobSample"]),
        processes=processes,
        heartbeats=load_heartbeats(directory / HEARTBEATS_NAME),
        longest_gap_s=longest_gap_s,
        ended_at=ended_at,
    )


def load_witness(file: Path) -> tuple[tuple[WitnessedProcess, ...], float, float]:
    """Return the processes, the longest gap between two scans and the time of the last scan.

    A process has one line when it is first seen, and later lines that replace its `last_seen`.
    """
    processes: dict[tuple[int, int], WitnessedProcess] = {}
    longest_gap_s = ended_at = 0.0
    for fields in read_json_lines(file):
        if "longest_gap_s" in fields:
            longest_gap_s, ended_at = fields["longest_gap_s"], fields["at"]
        elif "job" in fields:
            key = (fields["pid"], fields.pop("started"))
            processes[key] = WitnessedProcess(**fields)
        else:
            key = (fields["pid"], fields["started"])
            processes[key] = dataclasses.replace(processes[key], last_seen=fields["last_seen"], gone_at=fields.get("gone_at"))
    return tuple(processes.values()), longest_gap_s, ended_at


def load_heartbeats(directory: Path) -> tuple[HeartbeatSeries, ...]:
    times: dict[tuple[str, int, str, int], list[float]] = {}
    for file in sorted(directory.glob("*.jsonl")):
        for line in read_json_lines(file):
            times.setdefault((line["job"], line["attempt"], line["nonce"], line["pid"]), []).append(line["at"])
    return tuple(HeartbeatSeries(*key, times=tuple(values)) for key, values in times.items())


def read_json_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines. A process that was killed while it wrote may leave a last line cut off."""
    if not file.exists():
        return
    with file.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
