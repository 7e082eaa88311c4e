"""What ZooKeeper has committed about each job, read at the server at the moment of each commit. Nobody's own account counts."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.identifiers import JobId
from holdfast.zk.session.client import Create, Delete, Operation, SetData, Stat
from tests.sim.nodes import PATHS
from tests.sim.oracles import OPERATOR
from tests.sim.world import World

Fields = dict[str, Any]


@dataclass
class JobRecord:
    """As the server has it, and as it had it before the last change."""

    id: JobId
    state: Fields | None = None
    state_version: int = -1
    state_since_s: float = 0.0
    attempt: int = 0
    desired: str = ""
    force: bool = False
    report: Fields | None = None
    lease: Fields | None = None
    lease_session: int = 0
    lease_gone_s: float = float("-inf")
    launched: set[tuple[int, str]] = field(default_factory=set)
    """Every attempt that a leader has ever given to a node."""
    spec: Fields | None = None
    cancelled_s: float | None = None
    spoken_s: float = float("-inf")
    """When a person last said anything."""
    certified: set[str] = field(default_factory=set)
    """The nonces of those that were certified dead."""
    touched: bool = False
    """By an operator's hand: garbage, or something that was put back."""
    ended: bool = False
    """It was in a final phase at some time."""
    events: set[tuple[int, str, str]] = field(default_factory=set)
    """Number, phase and reason of every change that was committed."""
    swept: bool = False
    """It ended, and its record was forgotten."""

    @property
    def phase(self) -> str:
        return str(self.state.get("phase")) if self.state is not None else ""

    def occupies(self, node: str) -> bool:
        return self.state is not None and self.phase in ("STARTING", "RUNNING", "STOPPING") and self.state.get("node") == node

    @property
    def final(self) -> bool:
        return self.phase in ("FINISHED", "FAILED", "CANCELLED")


@dataclass(frozen=True, slots=True)
class Commit:
    session: int
    process: str
    operations: Sequence[Operation]

    @property
    def by_operator(self) -> bool:
        return self.process == OPERATOR

    @property
    def by_agent(self) -> bool:
        return self.process.endswith("/agent")

    @property
    def by_runner(self) -> bool:
        return "/runner-" in self.process

    def sets(self, path: str) -> bool:
        return any(isinstance(each, SetData | Create) and each.path == path for each in self.operations)

    def touches(self, path: str) -> bool:
        return any(each.path == path for each in self.operations)


OnPart = Callable[[str, JobRecord, JobRecord, Commit], object]
"""Called with the part, the record before and after, and the commit."""


class Ledger:
    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs: dict[JobId, JobRecord] = {}
        self.on_part: list[OnPart] = []
        self.on_lease_gone: list[Callable[[JobRecord, str], object]] = []
        """With the reason for which the session ended, or an empty one if the lease was deleted."""
        world.zk.on_commit(self._committed)
        world.zk.on_session_end(self._session_ended)

    def record(self, job: JobId) -> JobRecord:
        return self.jobs.setdefault(job, JobRecord(job))

    def _committed(
        self, zxid: int, session: int, process: str, operations: Sequence[Operation], results: Sequence[str | Stat | None]
    ) -> None:
        commit = Commit(session, process, operations)
        prefix = f"{PATHS.jobs}/"
        changed: list[tuple[str, JobRecord]] = []
        before: dict[JobId, JobRecord] = {}
        for operation, result in zip(operations, results, strict=True):
            if isinstance(operation, SetData | Create | Delete) and operation.path.startswith(prefix):
                job, __, part = operation.path.removeprefix(prefix).partition("/")
                record = self.record(JobId(job))
                before.setdefault(record.id, _copy(record))
                if part:
                    self._note(record, part, operation, result, commit)
                    changed.append((part, record))
        for part, after in changed:
            for callback in self.on_part:
                callback(part, before[after.id], after, commit)

    def _note(self, record: JobRecord, part: str, operation: Operation, result: str | Stat | None, commit: Commit) -> None:  # noqa: PLR0912
        now_s = self._world.now_s
        data = operation.data if isinstance(operation, SetData | Create) else b""
        if commit.by_operator and part != "lease":
            record.touched = True
        match part:
            case "state" if isinstance(operation, Delete):
                record.swept = commit.by_agent
            case "state":
                record.state = _read(data)
                record.state_version = result.version if isinstance(result, Stat) else 0
                record.state_since_s = now_s
                record.ended = record.ended or (record.final and not commit.by_operator)
                for event in (record.state or {}).get("events", ())[-1:] if commit.by_agent else ():
                    record.events.add((event["number"], event["phase"], event["reason"]))
                if record.phase == "STARTING" and record.state is not None and commit.by_agent:
                    record.launched.add((record.state["attempt"], record.state["node"]))
            case "attempt":
                record.attempt = result.version if isinstance(result, Stat) else 0
            case "desired":
                fields = _read(data) or {}
                record.desired, record.force = str(fields.get("desired")), bool(fields.get("force"))
                record.spoken_s = now_s
                if record.desired == "cancel" and record.cancelled_s is None:
                    record.cancelled_s = now_s
            case "report":
                record.report = _read(data)
                if record.report is not None and record.report.get("dead"):
                    record.certified.add(str(record.report.get("nonce")))
            case "spec":
                record.spec = _read(data)
            case "lease":
                if isinstance(operation, Delete):
                    self._lease_gone(record, "")
                else:
                    record.lease = _read(data)
                    if isinstance(operation, Create):
                        record.lease_session = commit.session

    def _lease_gone(self, record: JobRecord, reason: str) -> None:
        for callback in self.on_lease_gone:
            callback(record, reason)
        record.lease, record.lease_session = None, 0
        record.lease_gone_s = self._world.now_s

    def _session_ended(self, _: int, session: int, __: str, paths: Sequence[str], reason: str) -> None:
        for path in paths:
            if path.startswith(PATHS.jobs) and path.endswith("/lease"):
                self._lease_gone(self.record(JobId(path.split("/")[-2])), reason)


def _copy(record: JobRecord) -> JobRecord:
    """The parts are replaced, never changed, so that a shallow copy keeps what was."""
    copy = JobRecord(record.id)
    copy.__dict__.update(record.__dict__)
    return copy


def _read(data: bytes) -> Fields | None:
    """None for garbage."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and "schema" in fields else None
