"""A job as stored in ZooKeeper, and the values derived from its znodes."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import NO_ATTEMPT, DesiredRecord, JobState, Lease, Progress, Report, Spec
from holdfast.model.phase import Phase
from holdfast.model.schedule.runs import RunHistory


@dataclass(frozen=True, slots=True)
class StoredJob:
    """The decoded znodes of one job. A part that is missing or unreadable is None and is described in `defects`."""

    id: JobId
    name: str | None
    submitted_ms: int | None
    spec: Spec | None = None
    desired_record: DesiredRecord | None = None
    state: JobState | None = None
    lease: Lease | None = None
    report: Report | None = None
    assigned_attempt: Attempt = NO_ATTEMPT
    """Version of the `attempt` znode: the last attempt number assigned. Read only if `state` is unreadable."""
    quarantined: bool = False
    """True if the job has an entry in the cluster's quarantine."""
    defects: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name} ({self.id})" if self.name is not None else self.id

    @property
    def has_ended(self) -> bool:
        return self.state is not None and self.state.phase.final

    @property
    def phase(self) -> Phase | None:
        """Phase for display, or None if the state is unreadable."""
        if self.quarantined and not self.has_ended:
            return Phase.QUARANTINED
        return self.state.phase if self.state is not None else None

    @property
    def reason(self) -> str:
        if self.phase is Phase.QUARANTINED and self.state is not None and self.state.phase is not Phase.QUARANTINED:
            # The znodes were restored by hand after the job was quarantined, so the stored state is not its current state.
            return f"the job is still in quarantine although its znodes were restored: run 'holdfast quarantine show {self.id}'"
        if self.state is not None and (not self.defects or self.state.phase is Phase.QUARANTINED):
            # The runner updates its lease at once; the leader copies the reason into the state later.
            lease = self.lease if self.phase in (Phase.STARTING, Phase.RUNNING) else None
            return lease.reason if lease is not None and lease.note not in self.state.reason else self.state.reason
        if self.state is not None:
            return "; ".join((*self.defects, self.state.reason))
        alive = f"attempt {self.lease.attempt} is running on {self.lease.node}" if self.lease is not None else None
        return "; ".join((*self.defects, *([alive] if alive is not None else [])))

    @property
    def attempt(self) -> Attempt:
        assigned = self.state.attempt if self.state is not None else self.assigned_attempt
        return max(assigned, self.lease.attempt) if self.lease is not None else assigned

    @property
    def runs(self) -> RunHistory | None:
        """Runs of a scheduled job; None for any other job, and before the first decision of a leader."""
        return self.state.runs if self.state is not None else None

    @property
    def next_run_at(self) -> float | None:
        """Wall time of the next run, while the job waits for it."""
        return self.state.not_before if self.state is not None and self.phase is Phase.SCHEDULED else None

    @property
    def restarts(self) -> int:
        return self.state.restarts if self.state is not None else 0

    @property
    def node(self) -> NodeId | None:
        if self.lease is not None:
            return self.lease.node
        return self.state.node if self.state is not None else None

    @property
    def progress(self) -> Progress:
        """Progress of the running attempt, or else the last reported progress without its rate."""
        if self.lease is not None:
            return self.lease.progress or Progress()
        last = self.report.progress if self.report is not None else None
        return replace(last, rows_per_second=None) if last is not None else Progress()

    @property
    def changed_at(self) -> float | None:
        """Wall-clock time of the last event, in seconds since the epoch; the submission time if there is no event."""
        if self.state is not None and self.state.events:
            return self.state.events[-1].wall
        return self.submitted_ms / 1000 if self.submitted_ms is not None else None


def count_slots_used(jobs: Iterable[StoredJob]) -> Counter[NodeId]:
    """Return the slots in use per node, counted in the same way as the leader does."""
    used: Counter[NodeId] = Counter()
    for job in jobs:
        slots = job.spec.slots if job.spec is not None else 1
        if job.lease is not None:
            used[job.lease.node] += slots
        elif job.state is not None and job.state.phase.occupies_slots and job.state.node is not None:
            used[job.state.node] += slots
    return used
