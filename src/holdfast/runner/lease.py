"""Lease of one attempt: an ephemeral znode, written at every heartbeat, released with the outcome.

One transaction takes the lease: it checks that the attempt is the newest and that the job should run, and it writes the
report. If the report already names this attempt or a later one, the lease is refused, so no attempt number runs twice. Every
later write of the report also checks the lease, so a runner that has lost its lease cannot report any more.

A new session of the same runner can take the lease again, in one transaction that checks the attempt number and writes the
report of the same attempt and nonce. If a leader has decided something from the missing lease and not committed it yet, its
transaction then fails the version check of the report.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import OLDEST_SCHEMA, MalformedRecord, NewerSchema, decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, DesiredRecord, Lease, Outcome, Progress, Report, SparkApplication, Spec
from holdfast.model.unreported_outcome import first_unreported_attempt
from holdfast.model.versions import FIRST_VERSION
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Check, Client, Committed, Create, Delete, NoNode, Operation, SetData, Stat, Znode

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
    trust: CheckpointTrust | None = None
    """Damage of the checkpoint that a user has accepted."""


class LeaseHolder:
    def __init__(
        self,
        client: Client,
        paths: Paths,
        assignment: AttemptAssignment,
        *,
        schema: Callable[[], int] = lambda: OLDEST_SCHEMA,
    ) -> None:
        """`schema` returns the schema in which to write the next record."""
        self._client = client
        self._schema = schema
        self._assignment = assignment
        self._lease_path = paths.job(assignment.job, "lease")
        self._paths = paths
        self._lease = Lease(
            assignment.attempt, assignment.node, nonce=assignment.nonce, runner_pid=assignment.runner_pid, starting=True
        )
        self._version = 0
        self._report: Report | None = None
        self._report_version = 0
        self._possible_failsafe_nodes: tuple[NodeId, ...] = ()
        """Failsafe set of a report whose write has an unknown outcome."""

    def _path(self, part: str) -> str:
        return self._paths.job(self._assignment.job, part)

    def _encode(self, record: Lease | Report) -> bytes:
        return encode(record, schema=self._schema())

    @property
    def reported_failsafe_set(self) -> tuple[NodeId, ...]:
        """Failsafe set of the report that was certainly written."""
        return self._report.failsafe if self._report is not None else ()

    @property
    def failsafe_nodes(self) -> tuple[NodeId, ...]:
        """Nodes that the report names or may name. A later attempt can start on each of them."""
        return tuple(sorted({*self.reported_failsafe_set, *self._possible_failsafe_nodes}))

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
        decoded_spec = decode(Spec, spec.data, where="its spec")
        is_scheduled = decoded_spec.schedule is not None
        first_unreported = (
            first_unreported_attempt(previous, is_scheduled=is_scheduled) if previous is not None else assignment.attempt
        )
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
            starting=True,
            first_unreported=first_unreported,
            checkpoint=previous.checkpoint if previous is not None else "",
        )
        taken = TakenLease(decoded_spec, desired.stat.version, desired_record.trial_s, previous, desired_record.trust)
        return taken, [
            Check(self._path("attempt"), attempt.stat.version),
            Check(self._path("desired"), desired.stat.version),
            Check(spec_path, spec.stat.version),
            Create(self._lease_path, self._encode(self._lease), ephemeral=True),
            SetData(self._path("report"), self._encode(self._report), report.stat.version),
        ]

    async def retake(self, client: Client) -> bool:
        """Take the lease of the same attempt again with a new session, whose client this object uses from then on.

        Return False if the old lease still exists or a znode changed in the meantime: try again later. Raises LeaseLost if the
        attempt is over or was certified dead, and the errors of the client. After OutcomeUnknown, the next call finds the
        lease of the client's own session.
        """
        await client.sync(self._path("attempt"))
        try:
            attempt = await client.get(self._path("attempt"))
            report = await client.get(self._path("report"))
        except NoNode as error:
            raise LeaseLost(f"a znode of the job is missing: {error}") from None
        self._check_still_newest(attempt)
        own_report = self._check_still_reported(report)
        # Watch the old lease: its session may outlive the client, for example if the server refused the client's credentials.
        lease = await client.exists(self._lease_path, watch=True)
        if lease is not None:
            if client.session is None or lease.ephemeral_owner != client.session.id:
                return False
            self._use(client, own_report, lease_version=lease.version, report_version=report.stat.version)
            return True
        outcome = await client.commit(self._retake_operations(attempt, own_report, report))
        if isinstance(outcome, Committed):
            self._use(client, own_report, lease_version=0, report_version=_version(outcome.results[1]))
            return True
        if not isinstance(outcome.error, Conflict):
            raise outcome.error
        return False

    def _retake_operations(self, attempt: Znode, own_report: Report, report: Znode) -> list[Operation]:
        return [
            Check(self._path("attempt"), attempt.stat.version),
            SetData(self._path("report"), self._encode(own_report), report.stat.version),
            Create(self._lease_path, self._encode(self._lease), ephemeral=True),
        ]

    def _check_still_newest(self, attempt: Znode) -> None:
        if attempt.stat.version != self._assignment.attempt:
            raise LeaseLost(f"attempt {self._assignment.attempt} is over: the newest is {attempt.stat.version}")

    def _check_still_reported(self, znode: Znode) -> Report:
        """Return the report. Raise LeaseLost unless it names this runner's attempt as alive."""
        try:
            report = decode(Report, znode.data, where="its report")
        except (MalformedRecord, NewerSchema) as error:
            raise LeaseLost(str(error)) from None
        if (report.attempt, report.nonce) != (self._assignment.attempt, self._assignment.nonce):
            raise LeaseLost("the report names another runner")
        if report.dead or report.outcome is not None:
            raise LeaseLost("the report says that this attempt has ended")
        return report

    def _use(self, client: Client, report: Report, *, lease_version: int, report_version: int) -> None:
        self._client = client
        self._version = lease_version
        self._report, self._report_version, self._possible_failsafe_nodes = report, report_version, ()

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
        isolation: str = "",
        starting: bool = False,
        application: SparkApplication | None = None,
        checkpoint: str = "",
    ) -> bool:
        """Write the lease, and the report if it has changed. Return False if another write interfered: try again later.

        `checkpoint` is the root that the attempt has claimed; empty before. Raises LeaseLost, and the errors of the client.
        """
        own = self._assignment
        lease = Lease(
            own.attempt, own.node, own.nonce, own.runner_pid, driver_pid, progress, note, isolation, starting, application
        )
        operations: list[Operation] = [SetData(self._lease_path, self._encode(lease), self._version)]
        assert self._report is not None, "the lease was taken"
        claimed = checkpoint or self._report.checkpoint
        report = replace(self._report, failsafe=failsafe, note=note, proven=proven, starting=starting, checkpoint=claimed)
        # The first batch of this attempt replaces the progress of earlier ones, which may be larger: a user may have trusted a
        # checkpoint that lacks batches.
        is_first = _batch_of(report.progress) is None or (proven and not self._report.proven)
        if is_first and _batch_of(progress) is not None:
            report = replace(report, progress=progress)
        if report != self._report:
            operations.append(SetData(self._path("report"), self._encode(report), self._report_version))
            self._possible_failsafe_nodes = tuple({*self._possible_failsafe_nodes, *failsafe})
        outcome = await self._client.commit(operations)
        if isinstance(outcome, Committed):
            self._possible_failsafe_nodes = ()
            self._lease = lease
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

    async def release(self, outcome: Outcome, progress: Progress | None, *, proven: bool = False, checkpoint: str = "") -> None:
        """Delete the lease and report the outcome, with the certificate that every process is gone, in one transaction.

        Raises LeaseLost, and the errors of the client.
        """
        await self.verify_ownership()
        assert self._report is not None
        known = self._report.progress if _batch_of(progress) is None else progress
        report = replace(
            self._report,
            outcome=outcome,
            progress=known,
            dead=True,
            proven=proven,
            starting=False,
            checkpoint=checkpoint or self._report.checkpoint,
        )
        result = await self._client.commit(
            [Delete(self._lease_path, self._version), SetData(self._path("report"), self._encode(report), self._report_version)]
        )
        if not isinstance(result, Committed):
            raise result.error


def _batch_of(progress: Progress | None) -> int | None:
    return progress.batch_id if progress is not None else None


def _version(result: object) -> int:
    assert isinstance(result, Stat)
    return result.version
