"""The lease of one attempt: an ephemeral znode, taken once, written at every heartbeat, given back with the outcome.

Taking it is one transaction that checks that the attempt is still the newest and still wanted, and that writes the report. A
report that names this attempt or a later one refuses it, so that no number runs twice. Later the report is only written
together with a check of the lease: who has lost it has nothing more to say.
"""

from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, Lease, Outcome, Progress, Report, Spec, Wanted
from holdfast.model.versions import FIRST
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Check, Client, Committed, Create, Delete, NoNode, Operation, SetData, Stat

TRIES_MAX = 10


class NotOurs(Refused):
    """The lease cannot be had: this attempt is over, not wanted, or somebody else's."""


class LeaseLost(Conflict):
    """It was ours and is no longer."""


@dataclass(frozen=True, slots=True)
class Run:
    """Which attempt, by whom."""

    job: JobId
    attempt: Attempt
    node: NodeId
    nonce: str
    runner_pid: int = 0
    version: int = FIRST
    """Of the spec."""
    on_trial: bool = False
    """It has to come to its first batch in time."""


@dataclass(frozen=True, slots=True)
class Taken:
    spec: Spec
    word: int
    """What people had said last when the lease was taken."""
    trial_s: float
    """How long a version that is on trial may take to its first batch."""
    before: Report | None
    """What the attempt before left in ZooKeeper."""


class LeaseHold:
    def __init__(self, client: Client, paths: Paths, run: Run) -> None:
        self._client = client
        self._run = run
        self._lease_path = paths.job(run.job, "lease")
        self._paths = paths
        self._version = 0
        self._report: Report | None = None
        self._report_version = 0
        self._perhaps: tuple[NodeId, ...] = ()
        """The failsafe set of a report of which it is not known whether it was written."""

    def _path(self, part: str) -> str:
        return self._paths.job(self._run.job, part)

    @property
    def failsafe(self) -> tuple[NodeId, ...]:
        """The nodes that the report names, or may name: a later attempt can be started on each of them."""
        named = self._report.failsafe if self._report is not None else ()
        return tuple(sorted({*named, *self._perhaps}))

    async def take(self, *, wall: float, failsafe: tuple[NodeId, ...]) -> Taken:
        """Raises NotOurs, and what a Client raises."""
        for _ in range(TRIES_MAX):
            await self._client.sync(self._path("attempt"))
            try:
                taken, operations = await self._offer(wall, failsafe)
            except NoNode as error:
                raise NotOurs(f"a part of the job is gone: {error}") from None
            try:
                outcome = await self._client.commit(operations)
            except OutcomeUnknown:
                if await self._is_mine():
                    return taken
                continue
            if isinstance(outcome, Committed):
                self._report_version = _version(outcome.results[-1])
                return taken
            if not isinstance(outcome.error, Conflict):
                raise outcome.error
            if outcome.index == len(operations) - 2:
                raise NotOurs("another runner holds the lease")
        raise NotOurs("what is wanted of the job changes all the time")

    async def _offer(self, wall: float, failsafe: tuple[NodeId, ...]) -> tuple[Taken, list[Operation]]:
        run = self._run
        attempt = await self._client.get(self._path("attempt"))
        report = await self._client.get(self._path("report"))
        desired = await self._client.get(self._path("desired"), watch=True)
        spec_path = self._paths.spec(run.job, run.version)
        spec = await self._client.get(spec_path)
        before = decode(Report, report.data, where="its report") if report.data else None
        if attempt.stat.version != run.attempt:
            raise NotOurs(f"attempt {run.attempt} is over: the newest is {attempt.stat.version}")
        if before is not None and before.attempt >= run.attempt:
            raise NotOurs(f"attempt {before.attempt} has run already: no number runs twice")
        wanted = decode(Wanted, desired.data, where="what is wanted of it")
        if wanted.desired is not Desired.RUN:
            raise NotOurs("it is not wanted any more")
        # How far the job had come is known only here if its checkpoint vanishes, so it is carried on.
        progress = before.progress if before is not None else None
        self._report = Report(
            run.attempt, run.node, wall, nonce=run.nonce, failsafe=failsafe, progress=progress, version=run.version
        )
        lease = Lease(run.attempt, run.node, nonce=run.nonce, runner_pid=run.runner_pid)
        return Taken(decode(Spec, spec.data, where="its spec"), desired.stat.version, wanted.trial_s, before), [
            Check(self._path("attempt"), attempt.stat.version),
            Check(self._path("desired"), desired.stat.version),
            Check(spec_path, spec.stat.version),
            Create(self._lease_path, encode(lease), ephemeral=True),
            SetData(self._path("report"), encode(self._report), report.stat.version),
        ]

    async def _is_mine(self) -> bool:
        """After a lost reply, and only after a sync: is the lease there, and is it our session's?"""
        await self._client.sync(self._lease_path)
        try:
            found = await self._client.get(self._lease_path)
            report = await self._client.get(self._path("report"))
        except NoNode:
            return False
        session = self._client.session
        if session is None or found.stat.owner != session.id:
            return False
        self._version, self._report_version = found.stat.version, report.stat.version
        return True

    async def beat(
        self,
        *,
        driver_pid: int | None,
        progress: Progress | None,
        failsafe: tuple[NodeId, ...],
        note: str = "",
        proven: bool = False,
    ) -> bool:
        """A heartbeat; whether it was committed. If not, the next one may be. Raises LeaseLost, and what a Client raises."""
        run = self._run
        lease = Lease(run.attempt, run.node, run.nonce, run.runner_pid, driver_pid, progress, note)
        operations: list[Operation] = [SetData(self._lease_path, encode(lease), self._version)]
        assert self._report is not None, "only a lease that was taken is held"
        report = replace(self._report, failsafe=failsafe, note=note, proven=proven)
        if _batch_of(report.progress) is None and _batch_of(progress) is not None:
            report = replace(report, progress=progress)
        if report != self._report:
            operations.append(SetData(self._path("report"), encode(report), self._report_version))
            self._perhaps = tuple({*self._perhaps, *failsafe})
        outcome = await self._client.commit(operations)
        if isinstance(outcome, Committed):
            self._perhaps = ()
            self._version = _version(outcome.results[0])
            if len(operations) > 1:
                self._report, self._report_version = report, _version(outcome.results[1])
            return True
        if not isinstance(outcome.error, Conflict):
            raise outcome.error
        await self.find()
        return False

    async def find(self) -> None:
        """Where we stand, after a lost reply or after somebody else's hand. Raises LeaseLost."""
        if not await self._is_mine():
            raise LeaseLost("the lease is gone: the session that held it has ended")
        znode = await self._client.get(self._path("report"))
        report = decode(Report, znode.data, where="its report")
        if (report.attempt, report.nonce) != (self._run.attempt, self._run.nonce) or report.dead:
            raise LeaseLost("the report speaks of somebody else, or of our death")
        self._report, self._report_version, self._perhaps = report, znode.stat.version, ()

    async def give_back(self, outcome: Outcome, progress: Progress | None, *, proven: bool = False) -> None:
        """The outcome, the certificate that every process is gone, and the end of the lease, as one. Raises LeaseLost."""
        await self.find()
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
