"""Committed records of each job, read at the server at each commit, independently of what the processes report."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.identifiers import JobId
from holdfast.zk.session.client import Create, Delete, Operation, SetData, Stat
from tests.sim.leadership.agent_node import PATHS
from tests.sim.leadership.oracles import OPERATOR
from tests.sim.world import World

Fields = dict[str, Any]
_JOBS_PREFIX = f"{PATHS.jobs}/"


@dataclass
class JobRecord:
    """Current content of a job's znodes, and what happened to the job so far."""

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
    assigned_attempts: set[tuple[int, str]] = field(default_factory=set)
    """Every (attempt, node) that a leader has ever assigned."""
    spec: Fields | None = None
    cancelled_s: float | None = None
    desired_set_s: float = float("-inf")
    """Time at which a user last set the desired state."""
    certified_nonces: set[str] = field(default_factory=set)
    """Nonces of the attempts that were certified dead."""
    tampered: bool = False
    """True if an operator has changed the job's znodes by hand, for example to malformed bytes."""
    was_final: bool = False
    """True if the job has ever been in a final phase."""
    events: set[tuple[int, str, str]] = field(default_factory=set)
    """Number, phase and reason of every committed change."""
    garbage_collected: bool = False
    """True if the job ended and a leader deleted its record."""

    @property
    def phase(self) -> str:
        return str(self.state.get("phase")) if self.state is not None else ""

    def occupies_slot_on(self, node: str) -> bool:
        return self.state is not None and self.phase in ("STARTING", "RUNNING", "STOPPING") and self.state.get("node") == node

    @property
    def is_scheduled(self) -> bool:
        return self.spec is not None and self.spec["schedule"] is not None

    @property
    def is_final(self) -> bool:
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

    def writes(self, path: str) -> bool:
        return any(isinstance(each, SetData | Create) and each.path == path for each in self.operations)

    def includes(self, path: str) -> bool:
        return any(each.path == path for each in self.operations)


OnPartWritten = Callable[[str, JobRecord, JobRecord, Commit], object]
"""Callback (part, record before, record after, commit)."""


class CommittedRecords:
    """Committed records of all jobs, with callbacks for the oracles."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs: dict[JobId, JobRecord] = {}
        self.on_part_written: list[OnPartWritten] = []
        self.on_lease_gone: list[Callable[[JobRecord, str], object]] = []
        """Callbacks (record, reason the session ended). The reason is empty if the lease was deleted."""
        world.zk.on_commit(self._record_commit)
        world.zk.on_session_end(self._record_session_end)

    def get(self, job: JobId) -> JobRecord:
        return self.jobs.setdefault(job, JobRecord(job))

    def _record_commit(
        self, zxid: int, session: int, process: str, operations: Sequence[Operation], results: Sequence[str | Stat | None]
    ) -> None:
        commit = Commit(session, process, operations)
        changed: list[tuple[str, JobRecord]] = []
        before: dict[JobId, JobRecord] = {}
        for operation, result in zip(operations, results, strict=True):
            if isinstance(operation, SetData | Create | Delete) and operation.path.startswith(_JOBS_PREFIX):
                job, __, part = operation.path.removeprefix(_JOBS_PREFIX).partition("/")
                record = self.get(JobId(job))
                before.setdefault(record.id, _copy(record))
                if part:
                    self._apply_operation(record, part, operation, result, commit)
                    changed.append((part, record))
        for part, after in changed:
            for callback in self.on_part_written:
                callback(part, before[after.id], after, commit)

    def _apply_operation(  # noqa: PLR0912 -- one branch per part of a job
        self, record: JobRecord, part: str, operation: Operation, result: str | Stat | None, commit: Commit
    ) -> None:
        now_s = self._world.now_s
        data = operation.data if isinstance(operation, SetData | Create) else b""
        if commit.by_operator and part != "lease":
            record.tampered = True
        match part:
            case "state" if isinstance(operation, Delete):
                record.garbage_collected = commit.by_agent
            case "state":
                record.state = _decode(data)
                record.state_version = result.version if isinstance(result, Stat) else 0
                record.state_since_s = now_s
                record.was_final = record.was_final or (record.is_final and not commit.by_operator)
                for event in (record.state or {}).get("events", ())[-1:] if commit.by_agent else ():
                    record.events.add((event["number"], event["phase"], event["reason"]))
                if record.phase == "STARTING" and record.state is not None and commit.by_agent:
                    record.assigned_attempts.add((record.state["attempt"], record.state["node"]))
            case "attempt":
                record.attempt = result.version if isinstance(result, Stat) else 0
            case "desired":
                fields = _decode(data) or {}
                record.desired, record.force = str(fields.get("desired")), bool(fields.get("force"))
                record.desired_set_s = now_s
                if record.desired == "cancel" and record.cancelled_s is None:
                    record.cancelled_s = now_s
            case "report":
                record.report = _decode(data)
                if record.report is not None and record.report.get("dead"):
                    record.certified_nonces.add(str(record.report.get("nonce")))
            case "spec":
                record.spec = _decode(data)
            case "lease":
                if isinstance(operation, Delete):
                    self._record_lease_end(record, "")
                else:
                    record.lease = _decode(data)
                    if isinstance(operation, Create):
                        record.lease_session = commit.session

    def _record_lease_end(self, record: JobRecord, reason: str) -> None:
        for callback in self.on_lease_gone:
            callback(record, reason)
        record.lease, record.lease_session = None, 0
        record.lease_gone_s = self._world.now_s

    def _record_session_end(self, _: int, session: int, __: str, paths: Sequence[str], reason: str) -> None:
        for path in paths:
            if path.startswith(PATHS.jobs) and path.endswith("/lease"):
                self._record_lease_end(self.get(JobId(path.split("/")[-2])), reason)


def _copy(record: JobRecord) -> JobRecord:
    """Return a shallow copy. Znode contents are replaced and never modified in place, so the copy keeps the old ones."""
    copy = object.__new__(JobRecord)
    copy.__dict__.update(record.__dict__)
    return copy


def _decode(data: bytes) -> Fields | None:
    """Return the record's fields, or None if the bytes are malformed."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and "schema" in fields else None
