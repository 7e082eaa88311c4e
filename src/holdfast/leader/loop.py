"""The leader's loop: observe → plan → apply, one pass after the other, for as long as its reign lasts."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.leader.garbage_collector import SweepBlobs, Sweeper
from holdfast.leader.observer import Observer
from holdfast.leader.transactions import Apply
from holdfast.log import Log
from holdfast.model.identifiers import JobId
from holdfast.model.job import Event
from holdfast.plan import Command, Launch, Now, Quarantine, Settle, Snapshot, Withdraw, plan
from holdfast.plan.retention import Keep
from holdfast.zk.leadership import write_outcome as outcomes
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client

PIPELINED = 100
KEEP = Keep()

Tell = Callable[[JobId, Event], None]
"""Where the events of a job go, besides its own record."""


@dataclass(frozen=True, slots=True)
class Pace:
    margin_s: float
    """How long after its lease was seen gone an attempt is surely dead."""
    start_s: float = 30.0
    """How long a node may take from an order to the lease."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a leader has to do, for people and for measurements."""

    jobs: int = 0
    alive: int = 0
    pass_s: float = 0.0
    """How long the last pass took."""
    commands: int = 0
    """Carried out in this reign."""


class Leader:
    def __init__(
        self,
        client: Client,
        paths: Paths,
        reign: Reign,
        *,
        clock: Clock,
        pace: Pace,
        log: Log,
        tell: Tell = lambda *_: None,
        keep: Keep = KEEP,
        sweep_blobs: SweepBlobs | None = None,
    ) -> None:
        self._paths = paths
        self._reign = reign
        self._clock = clock
        self._pace = pace
        self._log = log
        self._tell = tell
        self.observer = Observer(client, paths, clock)
        self.lost: str | None = None
        """Why this reign is over, once that is known."""
        self._client = client
        self._sweeper: Sweeper | None = None
        self._keep = keep
        self._sweep_blobs = sweep_blobs
        self.work = Work()
        self._began_at = clock.boottime()
        self._confirmed = False

    def take_over(self, observer: Observer) -> None:
        """Go on with what was seen while another node led."""
        observer.begin_again()
        self.observer = observer

    def fired(self, paths: Iterable[str]) -> None:
        self.observer.fired(paths)

    async def one_pass(self) -> int:
        """How many commands were carried out; what they changed is looked at by the next pass.

        Raises what a Client raises, and NewerSchema."""
        began_at = self._clock.boottime()
        await self.observer.look()
        now = Now(wall=self._clock.wall(), boot=self._clock.boottime())
        snapshot = self.observer.snapshot(self._reign.epoch, margin_s=self._pace.margin_s, start_s=self._pace.start_s)
        commands = plan(snapshot, now)
        done = 0
        for first in range(0, len(commands), PIPELINED):
            if self.lost is not None:
                break
            done += sum(await asyncio.gather(*(self._carry_out(command) for command in commands[first : first + PIPELINED])))
        self._account(snapshot, done, began_at)
        if self.lost is None:
            await self._swept().sweep_if_due()
        return done

    def _swept(self) -> Sweeper:
        if self._sweeper is None:
            self._sweeper = Sweeper(
                self._client,
                self._paths,
                self._reign,
                self.observer,
                clock=self._clock,
                keep=self._keep,
                log=self._log,
                sweep_blobs=self._sweep_blobs,
            )
        return self._sweeper

    def _account(self, snapshot: Snapshot, done: int, began_at: float) -> None:
        now = self._clock.boottime()
        alive = sum(job.lease is not None for job in snapshot.jobs.values())
        self.work = Work(len(snapshot.jobs), alive, now - began_at, self.work.commands + done)
        if not self._confirmed:
            self._confirmed = True
            self._log.info("jobs confirmed", jobs=self.work.jobs, alive=alive, seconds=round(now - self._began_at, 3))

    async def _carry_out(self, command: Command) -> bool:
        apply = Apply(self.observer, self._paths, self._reign.epoch, wall=self._clock.wall())
        operations = apply.operations(command)
        self.observer.doubt(command.job)
        match await self._reign.commit(operations):
            case outcomes.Done():
                self._announce(command)
                return True
            case outcomes.LeadershipLost(reason):
                self.lost = reason
            case outcomes.Conflict(path, reason):
                self._log.info("decided from old news", job=command.job, path=path, reason=reason)
                if path.startswith(f"{self._paths.orders}/"):
                    self.observer.doubt_order(path)
            case outcomes.Unknown(reason):
                raise OutcomeUnknown(reason)
            case outcomes.Unsent(reason):
                raise Unavailable(reason)
            case outcomes.Final(reason):
                self._log.error("command refused", job=command.job, command=type(command).__name__, problem=reason)
        return False

    def _announce(self, command: Command) -> None:
        match command:
            case Launch() | Settle() | Quarantine():
                state = command.state
                if state is not None:
                    event = state.events[-1]
                    self._log.info("job", job=command.job, phase=event.phase, attempt=event.attempt, reason=event.reason)
                    self._tell(command.job, event)
                else:
                    self._log.warning("job quarantined", job=command.job, reason=command.reason)
            case Withdraw():
                self._log.info("order withdrawn", job=command.job, reason=command.reason)
