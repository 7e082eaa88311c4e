"""What a leader has read about one job: the znodes as they were, and what they mean."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from holdfast.model.codec import Garbage, decode
from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import Lease, Report, Spec, State, Wanted
from holdfast.model.phase import Phase
from holdfast.model.versions import FIRST
from holdfast.plan.snapshot import Garbled, JobView
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import NameRecord
from holdfast.zk.session.client import Znode

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class JobSight:
    """Everything that was there to be read. None: it was not there."""

    id: JobId
    spec: Znode | None = None
    """Of the version that the next attempt would run."""
    desired: Znode | None = None
    attempt: Znode | None = None
    state: Znode | None = None
    report: Znode | None = None
    lease: Znode | None = None
    name: Znode | None = None
    """Of the name that its spec claims."""
    view: JobView = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "view", self._interpret())

    def _interpret(self) -> JobView:
        """Raises NewerSchema: what a later version wrote is not ours to judge."""
        wanted = _read(Wanted, self.desired, "desired")
        lease = _read(Lease, self.lease, "lease")
        return JobView(
            id=self.id,
            spec=_read(Spec, self.spec, "spec"),
            desired=wanted.desired if isinstance(wanted, Wanted) else wanted,
            attempt=self._attempt(lease),
            state=_read(State, self.state, "state"),
            lease=lease,
            report=_read(Report, self.report, "report") if self.report is not None and self.report.data else None,
            word=self.desired.stat.version if self.desired is not None else 0,
            force=wanted.force if isinstance(wanted, Wanted) else False,
            version=wanted.version if isinstance(wanted, Wanted) else FIRST,
            # Of what is alive less is read, and less matters: it is left alone.
            whole=self.lease is not None or None not in (self.spec, self.desired, self.attempt, self.report),
            owns_its_name=self.lease is not None or self._owns_its_name(),
        )

    def _attempt(self, lease: Lease | Garbled | None) -> Attempt:
        if self.attempt is not None:
            return Attempt(self.attempt.stat.version)
        return lease.attempt if isinstance(lease, Lease) else Attempt(0)

    def _owns_its_name(self) -> bool:
        record = _read(NameRecord, self.name, "name")
        return isinstance(record, NameRecord) and record.job == self.id

    @property
    def ended(self) -> bool:
        return isinstance(self.view.state, State) and self.view.state.phase.final

    @property
    def version(self) -> int:
        """Of the spec that the next attempt would run."""
        state = self.view.state
        return state.versions.next(self.view.version) if isinstance(state, State) else self.view.version

    @property
    def running(self) -> bool:
        """Whether it is known to be."""
        return isinstance(self.view.state, State) and self.view.state.phase is Phase.RUNNING

    def claimed_name(self, paths: Paths) -> str | None:
        spec = self.view.spec
        return paths.name(spec.name) if isinstance(spec, Spec) else None


def _read(kind: type[Record], znode: Znode | None, what: str) -> Record | Garbled | Any:
    if znode is None:
        return None
    try:
        return decode(kind, znode.data, where=what)
    except Garbage as error:
        return Garbled(str(error))
