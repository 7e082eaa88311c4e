"""Leader: runs passes of observe, plan, execute for as long as its leadership lasts."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from holdfast.clock import Clock
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.leader.checkpoint_collector import RemoveCheckpoint
from holdfast.leader.garbage_collector import CollectBlobs, GarbageCollector
from holdfast.leader.observer import Observer
from holdfast.leader.transactions import TransactionBuilder
from holdfast.log import Log
from holdfast.model.identifiers import JobId
from holdfast.model.job import Event
from holdfast.plan import Command, EndAttempt, Launch, Now, Quarantine, UpdateState, WithdrawOrder, plan
from holdfast.plan.retention import RetentionPolicy
from holdfast.zk.leadership import write_outcome as outcomes
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client
from holdfast.zk.session.timing import SteadyContact

CONCURRENT_COMMANDS_MAX = 100
DEFAULT_RETENTION = RetentionPolicy()

EventListener = Callable[[JobId, Event], None]
"""Receiver of each event, in addition to the job's own record."""


@dataclass(frozen=True, slots=True)
class LeaderTiming:
    margin_s: float
    """Seconds after the lease was first seen missing until the attempt is certainly dead."""
    start_s: float = 30.0
    """Seconds a node may take from an order to the lease."""
    session_timeout_s: float = 0.0
    """Seconds that nodes and runners get to return after a disturbance of the leader's contact with ZooKeeper."""


@dataclass(frozen=True, slots=True)
class LeaderStats:
    """Workload of a leader, for status output and metrics."""

    jobs: int = 0
    alive: int = 0
    pass_s: float = 0.0
    """Duration of the last pass."""
    commands: int = 0
    """Number of commands executed in this epoch."""
    jobs_read: int = 0
    """Number of jobs read in this session, each time counted again."""


class Leader:
    def __init__(
        self,
        client: Client,
        paths: Paths,
        leadership: Leadership,
        *,
        clock: Clock,
        timing: LeaderTiming,
        contact: SteadyContact,
        log: Log,
        on_event: EventListener = lambda *_: None,
        retention: RetentionPolicy = DEFAULT_RETENTION,
        collect_blobs: CollectBlobs | None = None,
        remove_checkpoint: RemoveCheckpoint | None = None,
    ) -> None:
        self._paths = paths
        self._leadership = leadership
        self._clock = clock
        self._timing = timing
        self._contact = contact
        self._log = log
        self._on_event = on_event
        self.observer = Observer(client, paths, clock)
        self.lost_reason: str | None = None
        """Reason for the loss of leadership, or None while this node leads."""
        self._client = client
        self._garbage_collector: GarbageCollector | None = None
        self._retention = retention
        self._collect_blobs = collect_blobs
        self._remove_checkpoint = remove_checkpoint
        self.stats = LeaderStats()
        self._started_at = clock.boottime()
        self._first_pass_logged = False
        self._set_aside: dict[JobId, str] = {}
        """Jobs that were set aside in the last pass, with the reasons."""
        self._job_errors: dict[JobId, str] = {}
        """Last internal error in the handling of each job. Repetitions are not logged."""

    def take_over(self, observer: Observer) -> None:
        """Continue with the observations made while another node was the leader."""
        observer.start_leading()
        self.observer = observer

    def mark_changed(self, paths: Iterable[str]) -> None:
        self.observer.mark_changed(paths)

    async def run_pass(self) -> int:
        """Run one pass and return the number of commands executed. The next pass observes their effects.

        Raise the errors of a Client.
        """
        pass_started_at = self._clock.boottime()
        await self.observer.refresh()
        self._log_jobs_set_aside()
        now = Now(wall=self._clock.wall(), boot=self._clock.boottime())
        snapshot = replace(
            self.observer.snapshot(self._leadership.epoch),
            margin_s=self._timing.margin_s,
            start_s=self._timing.start_s,
            session_timeout_s=self._timing.session_timeout_s,
            undisturbed_since=self._contact.undisturbed_since(now.boot),
        )
        done = await self._execute_all(plan(snapshot, now, on_error=self._log_job_error))
        self._update_stats(done, pass_started_at)
        if self.lost_reason is None:
            await self._get_garbage_collector().collect_if_due()
        return done

    def _log_jobs_set_aside(self) -> None:
        """Log each job once that begins or ceases to be set aside."""
        before, self._set_aside = self._set_aside, self.observer.jobs_set_aside()
        for job, reason in self._set_aside.items():
            if before.get(job) != reason:
                self._log.warning("job set aside", job=job, reason=reason)
        for job in before.keys() - self._set_aside.keys():
            self._log.info("job no longer set aside", job=job)

    def _log_job_error(self, job: JobId, error: Exception) -> None:
        """Log an internal error that concerns one job, unless it is the job's last logged error."""
        problem = f"{type(error).__name__}: {error}"
        if self._job_errors.get(job) != problem:
            self._log.error("internal error", job=job, problem=problem, exc_info=error)
        self._job_errors[job] = problem

    async def _execute_all(self, commands: list[Command]) -> int:
        """Execute the commands in groups until the leadership is lost. Return the number of committed commands."""
        done = 0
        for first in range(0, len(commands), CONCURRENT_COMMANDS_MAX):
            if self.lost_reason is not None:
                break
            group = commands[first : first + CONCURRENT_COMMANDS_MAX]
            done += sum(await asyncio.gather(*(self._execute(command) for command in group)))
        return done

    def _get_garbage_collector(self) -> GarbageCollector:
        if self._garbage_collector is None:
            self._garbage_collector = GarbageCollector(
                self._client,
                self._paths,
                self._leadership,
                self.observer,
                clock=self._clock,
                retention=self._retention,
                log=self._log,
                collect_blobs=self._collect_blobs,
                remove_checkpoint=self._remove_checkpoint,
            )
        return self._garbage_collector

    def _update_stats(self, done: int, pass_started_at: float) -> None:
        now = self._clock.boottime()
        jobs, alive = self.observer.count_jobs()
        self.stats = LeaderStats(jobs, alive, now - pass_started_at, self.stats.commands + done, self.observer.jobs_read)
        if not self._first_pass_logged:
            self._first_pass_logged = True
            self._log.info("jobs confirmed", jobs=jobs, alive=alive, seconds=round(now - self._started_at, 3))

    async def _execute(self, command: Command) -> bool:
        builder = TransactionBuilder(self.observer, self._paths, self._leadership.epoch, wall=self._clock.wall())
        try:
            operations = builder.build(command)
        except Exception as error:  # noqa: BLE001 -- a bug that affects one job must not stop the others
            self._log_job_error(command.job, error)
            return False
        self.observer.mark_job_stale(command.job)
        match await self._leadership.commit(operations):
            case outcomes.WriteCommitted():
                self._announce(command)
                return True
            case outcomes.LeadershipLost(reason):
                self.lost_reason = reason
            case outcomes.WriteConflict(path, reason):
                self._log.info("outdated plan", job=command.job, path=path, reason=reason)
                if path.startswith(f"{self._paths.orders}/"):
                    self.observer.mark_order_changed(path)
            case outcomes.WriteUnknown(reason):
                raise OutcomeUnknown(reason)
            case outcomes.WriteNotSent(reason):
                raise Unavailable(reason)
            case outcomes.WriteRefused(reason):
                self._log.error("command refused", job=command.job, command=type(command).__name__, problem=reason)
        return False

    def _announce(self, command: Command) -> None:
        match command:
            case Launch() | EndAttempt() | UpdateState() | Quarantine():
                state = command.state
                if state is not None:
                    event = state.events[-1]
                    self._log.info("job", job=command.job, phase=event.phase, attempt=event.attempt, reason=event.reason)
                    self._on_event(command.job, event)
                else:
                    self._log.warning("job quarantined", job=command.job, reason=command.reason)
            case WithdrawOrder():
                self._log.info("order withdrawn", job=command.job, reason=command.reason)
