"""Lease of one attempt: an ephemeral znode, taken once, written at every heartbeat, released with the outcome.

One transaction takes the lease: it checks that the attempt is the newest and that the job should run, and it writes the
report. If the report already names this attempt or a later one, the lease is refused, so no attempt number runs twice. Every
later write of the report also checks the lease, so a runner that has lost its lease cannot report any more.
"""

from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, DesiredRecord, Lease, Outcome, Progress, Report, Spec
from holdfast.model.versions import FIRST_VERSION
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Check, Client, Committed, Create, Delete, NoNode, Operation, SetData, Stat

TAKE_ATTEMPTS_MAX = 10


class LeaseRefused(Refused):
    """The lease cannot be taken: the attempt is over, the job should not run, or another runner holds the lease."""


class LeaseLost(Conflict):
    """This runner held the lease and has lost it."""


@dataclass(frozen=True, slots=True)
class AttemptAssignment:
    """Attempt that a runner was started for."""

    job: JobId
    attempt: Attempt
    node: NodeId
    nonce: str
    runner_pid: int = 0
    version: int = FIRST_VERSION
    """Version of the spec."""
    on_trial: bool = False
    """True for a new version that must complete its first batch within the trial period."""


@dataclass(frozen=True, slots=True)
class TakenLease:
    spec: Spec
    desired_version: int
    """Version of the znode `desired` when the lease was taken."""
    trial_timeout_s: float
    """Trial period: time limit for the first batch of a version on trial."""
    previous_report: Report | None
    """Report of the previous attempt."""


class LeaseHolder:
    def __init__(self, client: Client, paths: Paths, assignment: AttemptAssignment) -> None:
        self._client = client
        self._assignment = assignment
        self._lease_path = paths.job(assignment.job, "lease")
        self._paths = paths
        self._version = 0
        self._report: Report | None = None
        self._report_version = 0
        self._possible_failsafe_nodes: tuple[NodeId, ...] = ()
        """Failsafe set of a report whose write has an unknown outcome."""

    def _path(self, part: str) -> str:
        return self._paths.job(self._assignment.job, part)

    @property
    def failsafe_nodes(self) -> tuple[NodeId, ...]:
        """Nodes that the report names or may name. A later attempt can start on each of them."""
        named = self._report.failsafe if self._report is not None else ()
        return tuple(sorted({*named, *self._possible_failsafe_nodes}))

    async def take(self, *, started_at: float, failsafe: tuple[NodeId, ...]) -> TakenLease:
        """Take the lease and write the first report. Raises LeaseRefused, and the errors of the client."""
        for _ in range(TAKE_ATTEMPTS_MAX):
            await self._client.sync(self._path("attempt"))
            try:
                taken, operations = await self._prepare_transaction(started_at, failsafe)
            except NoNode as error:
                raise LeaseRefused(f"a znode of the job is missing: {error}") from None
            try:
                outcome = await self._client.commit(operations)
            except OutcomeUnknown:
                if await self._owns_lease():
                    return taken
                continue
            if isinstance(outcome, Committed):
                self._report_version = _version(outcome.results[-1])
                return taken
            if not isinstance(outcome.error, Conflict):
                raise outcome.error
            if outcome.index == len(operations) - 2:
                raise LeaseRefused("another runner holds the lease")
        raise LeaseRefused(f"the job's znodes changed during each of {TAKE_ATTEMPTS_MAX} attempts to take the lease")

    async def _prepare_transaction(self, started_at: float, failsafe: tuple[NodeId, ...]) -> tuple[TakenLease, list[Operation]]:
        assignment = self._assignment
        attempt = await self._client.get(self._path("attempt"))
        report = await self._client.get(self._path("report"))
        desired = await self._client.get(self._path("desired"), watch=True)
        spec_path = self._paths.spec(assignment.job, assignment.version)
        spec = await self._client.get(spec_path)
        previous = decode(Report, report.data, where="its report") if report.data else None
        if attempt.stat.version != assignment.attempt:
            raise LeaseRefused(f"attempt {assignment.attempt} is over: the newest is {attempt.stat.version}")
        if previous is not None and previous.attempt >= assignment.attempt:
            raise LeaseRefused(f"attempt {previous.attempt} has run already: no attempt number runs twice")
        desired_record = decode(DesiredRecord, desired.data, where="its desired state")
        if desired_record.desired is not Desired.RUN:
            raise LeaseRefused("the job should not run any more")
        # If the checkpoint vanishes, the report is the only record of the job's progress, so the progress is kept.
        progress = previous.progress if previous is not None else None
        self._report = Report(
            assignment.attempt,
            assignment.node,
            started_at,
            nonce=assignment.nonce,
            failsafe=failsafe,
            progress=progress,
            version=assignment.version,
        )
        lease = Lease(assignment.attempt, assignment.node, nonce=assignment.nonce, runner_pid=assignment.runner_pid)
        return TakenLease(decode(Spec, spec.data, where="its spec"), desired.stat.version, desired_record.trial_s, previous), [
            Check(self._path("attempt"), attempt.stat.version),
            Check(self._path("desired"), desired.stat.version),
            Check(spec_path, spec.stat.version),
            Create(self._lease_path, encode(lease), ephemeral=True),
            SetData(self._path("report"), encode(self._report), report.stat.version),
        ]

    async def _owns_lease(self) -> bool:
        """Return True if the lease exists and belongs to this session. Sync first: the reply to a write may have been lost."""
        await self._client.sync(self._lease_path)
        try:
            lease = await self._client.get(self._lease_path)
            report = await self._client.get(self._path("report"))
        except NoNode:
            return False
        session = self._client.session
        if session is None or lease.stat.ephemeral_owner != session.id:
            return False
        self._version, self._report_version = lease.stat.version, report.stat.version
        return True

    async def send_heartbeat(
        self,
        *,
        driver_pid: int | None,
        progress: Progress | None,
        failsafe: tuple[NodeId, ...],
        note: str = "",
        proven: bool = False,
    ) -> bool:
        """Write the lease, and the report if it has changed. Return False if another write interfered: try again later.

        Raises LeaseLost, and the errors of the client.
        """
        own = self._assignment
        lease = Lease(own.attempt, own.node, own.nonce, own.runner_pid, driver_pid, progress, note)
        operations: list[Operation] = [SetData(self._lease_path, encode(lease), self._version)]
        assert self._report is not None, "the lease was taken"
        report = replace(self._report, failsafe=failsafe, note=note, proven=proven)
        if _batch_of(report.progress) is None and _batch_of(progress) is not None:
            report = replace(report, progress=progress)
        if report != self._report:
            operations.append(SetData(self._path("report"), encode(report), self._report_version))
            self._possible_failsafe_nodes = tuple({*self._possible_failsafe_nodes, *failsafe})
        outcome = await self._client.commit(operations)
        if isinstance(outcome, Committed):
            self._possible_failsafe_nodes = ()
            self._version = _version(outcome.results[0])
            if len(operations) > 1:
                self._report, self._report_version = report, _version(outcome.results[1])
            return True
        if not isinstance(outcome.error, Conflict):
            raise outcome.error
        await self.verify_ownership()
        return False

    async def verify_ownership(self) -> None:
        """Read the versions of lease and report after a lost reply or a conflict. Raises LeaseLost if the lease is not held."""
        if not await self._owns_lease():
            raise LeaseLost("the lease is gone: the session that held it has ended")
        znode = await self._client.get(self._path("report"))
        report = decode(Report, znode.data, where="its report")
        if (report.attempt, report.nonce) != (self._assignment.attempt, self._assignment.nonce) or report.dead:
            raise LeaseLost("the report names another runner, or certifies that this attempt is dead")
        self._report, self._report_version, self._possible_failsafe_nodes = report, znode.stat.version, ()

    async def release(self, outcome: Outcome, progress: Progress | None, *, proven: bool = False) -> None:
        """Delete the lease and report the outcome, with the certificate that every process is gone, in one transaction.

        Raises LeaseLost, and the errors of the client.
        """
        await self.verify_ownership()
        assert self._report is not None
        known = self._report.progress if _batch_of(progress) is None else progress
        report = replace(self._report, outcome=outcome, progress=known, dead=True, proven=proven)
        result = await self._client.commit(
            [Delete(self._lease_path, self._version), SetData(self._path("report"), encode(report), self._report_version)]
        )
        if not isinstance(result, Committed):
            raise result.error


def _batch_of(progress: Progress | None) -> int | None:
    return progress.batch_id if progress is not None else None


def _version(result: object) -> int:
    assert isinstance(result, Stat)
    return result.version
