"""Observation of one job by the leader: its znodes as they were read, and their decoded records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.model.codec import NewerRecord, UnreadableRecord
from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import DesiredRecord, JobState, Lease, Spec
from holdfast.model.phase import Phase
from holdfast.model.versions import FIRST_VERSION
from holdfast.plan.snapshot import JobView
from holdfast.zk.records.job_records import JobRecords, decode_znode
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import NameRecord
from holdfast.zk.session.client import Znode

NO_RECORDS = JobRecords()
_SUBMITTED_PARTS = ("spec", "desired", "attempt", "report")
"""Parts that a submission creates, besides the state."""


@dataclass(frozen=True, slots=True)
class JobObservation:
    """Znodes of one job, the records in them, and the planner's view of both."""

    id: JobId
    znodes: Mapping[str, Znode | None] = field(default_factory=dict)
    """Znodes by part. None means that the znode does not exist; a part that was not read has no entry."""
    records: JobRecords = NO_RECORDS
    name: Znode | None = None
    """Znode of the name that the spec claims."""
    lease_gone_since: float | None = None
    """Boot time at which this leader first saw that the lease is missing."""
    _view: JobView | None = field(init=False, default=None, repr=False, compare=False)

    @property
    def view(self) -> JobView:
        """Planner's view. It is built at the first use: an observation grows in several steps, which need no view."""
        if self._view is None:
            object.__setattr__(self, "_view", self._build_view())
        assert self._view is not None
        return self._view

    def add(self, znodes: Mapping[str, Znode | None]) -> "JobObservation":
        """Return the observation together with more znodes."""
        return replace(self, znodes={**self.znodes, **znodes}, records=self.records.add(znodes))

    def znode(self, part: str) -> Znode | None:
        return self.znodes.get(part)

    def _build_view(self) -> JobView:
        records, desired = self.records, self.znode("desired")
        request = records.desired if isinstance(records.desired, DesiredRecord) else None
        name = decode_znode(NameRecord, self.name, "the job's name")
        # For a live attempt the observer reads fewer znodes: the leader does not interfere with it.
        return JobView(
            id=self.id,
            spec=records.spec,
            desired=records.desired.desired if isinstance(records.desired, DesiredRecord) else records.desired,
            attempt=self._last_attempt(),
            state=records.state,
            lease=records.lease,
            report=records.report,
            desired_version=desired.stat.version if desired is not None else 0,
            force=request.force if request is not None else False,
            trust=request.trust if request is not None else None,
            run_now=request.run_now if request is not None else False,
            spec_version=request.version if request is not None else FIRST_VERSION,
            complete=self.is_alive or all(self.znode(part) is not None for part in _SUBMITTED_PARTS),
            owns_name=self.is_alive or (isinstance(name, NameRecord) and name.job == self.id),
            newer_name=name if isinstance(name, NewerRecord) else None,
            lease_gone_since=self.lease_gone_since,
        )

    def _last_attempt(self) -> Attempt:
        if self.records.attempt is not None:
            return self.records.attempt
        return self.records.lease.attempt if isinstance(self.records.lease, Lease) else Attempt(0)

    @property
    def is_alive(self) -> bool:
        """True if the lease exists."""
        return self.znode("lease") is not None

    @property
    def has_ended(self) -> bool:
        return self.ended_at is not None

    @property
    def ended_at(self) -> float | None:
        """Wall time of the end of the job; None if it has not ended."""
        state = self.records.state
        if not isinstance(state, JobState) or not state.phase.final:
            return None
        return state.events[-1].wall if state.events else 0.0

    @property
    def is_running(self) -> bool:
        """True if the state says RUNNING."""
        return isinstance(self.records.state, JobState) and self.records.state.phase is Phase.RUNNING

    @property
    def spec_version(self) -> int:
        """Version of the spec that the next attempt would run."""
        state, desired = self.records.state, self.records.desired
        requested = desired.version if isinstance(desired, DesiredRecord) else FIRST_VERSION
        return state.versions.next_version(requested) if isinstance(state, JobState) else requested

    def claimed_name(self, paths: Paths) -> str | None:
        """Return the path of the name that the spec claims, or None without a readable spec."""
        spec = self.records.spec
        return paths.name(spec.name) if isinstance(spec, Spec) else None

    def find_unreadable(self) -> tuple[str, bytes]:
        """Return the first part that cannot be read and its bytes, or an empty name."""
        for part in ("state", "spec", "desired", "report"):
            znode = self.znode(part)
            if znode is not None and isinstance(getattr(self.records, part), UnreadableRecord):
                return part, znode.data
        return "", b""
