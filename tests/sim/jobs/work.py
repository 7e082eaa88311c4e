"""The work of an attempt: claim the checkpoint, start the driver through a watchdog, see it to its end, leave the outcome.

It does what `holdfast.runner.driver` and `supervision` do, with the simulated kernel and storage.
"""

import asyncio
from typing import Any

from holdfast.model.job import Ending, Outcome, Progress, Report, Spec
from holdfast.runner.lease import Run
from holdfast.zk.session.client import SessionId
from tests.sim.jobs.drivers import Driver, Drivers, End
from tests.sim.jobs.machine import AttemptFiles, Machine, SimProcess
from tests.sim.jobs.storage import Storage
from tests.sim.jobs.watchdog import Deadline, Kill, Start, Watchdog

OVERDUE_S = 1.0
IMPATIENCE_S = 3.0


class _Ended(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class SimWork:
    """A `holdfast.runner.interfaces.Work`."""

    watchdog_kind = Watchdog

    def __init__(
        self, run: Run, machine: Machine, files: AttemptFiles, runner: SimProcess, drivers: Drivers, storage: Storage
    ) -> None:
        self._run = run
        self._machine = machine
        self._files = files
        self._runner = runner
        self._drivers = drivers
        self._storage = storage
        self._deadline = float("-inf")
        self._cause: Outcome | None = None
        self._claimed = False
        self._stop_asked = False
        self._watchdog: Watchdog | None = None
        self._overdue: asyncio.TimerHandle | None = None
        self._killing: asyncio.Task[None] | None = None
        self._ends: list[asyncio.Task[None]] = []
        self._futures: dict[str, asyncio.Future[Any]] = {}
        self.driver_pid: int | None = None
        self.note = ""

    async def perform(self, spec: Spec, before: Report | None) -> Outcome:
        try:
            return await self._perform(spec, before)
        except _Ended as ended:
            return ended.outcome

    async def _perform(self, spec: Spec, before: Report | None) -> Outcome:
        await self._claim(before)
        self._stop_if_asked()
        self._begin()
        try:
            await self._hear_of("ready")
            self._stop_if_asked()
            self._tell(Start(spec))
            self.driver_pid = await self._hear_of("started")
            if self.driver_pid is None:
                raise _Ended(self._too_late())
            end: End = await self._hear_of("exited")
            died_at = self._machine.clock.boottime()
            await self._hear_of("empty")
            return self._judge(end, died_at)
        finally:
            await self._kill()
            self._settle()

    def _too_late(self) -> Outcome:
        """Not the job's fault: its lease ran out, or its watchdog was lost, before the driver could be started."""
        return self._cause or Outcome(Ending.LOST, "its driver could not be started in time")

    def _stop_if_asked(self) -> None:
        if self._cause is not None:
            raise _Ended(self._cause)

    # The checkpoint

    async def _claim(self, before: Report | None) -> None:
        run = self._run
        earlier = await self._storage.untold(run.job, before)
        if earlier is not None:
            raise _Ended(Outcome(earlier.ending, f"it had ended already, and nobody was told: {earlier.reason}"))
        if not await self._storage.claim(run.job, run.attempt, run.nonce):
            raise _Ended(Outcome(Ending.CHECKPOINT_CONFLICT, "its checkpoint is claimed by somebody else"))
        self._claimed = True

    async def leave(self, outcome: Outcome) -> None:
        await asyncio.sleep(self._machine.random.uniform(0.0005, 0.005))
        self._files.outcome = outcome
        if self._claimed and outcome.ending not in (Ending.LOST, Ending.STOPPED, Ending.CHECKPOINT_CONFLICT):
            await self._storage.leave_outcome(self._run.job, self._run.attempt, outcome)

    # The watchdog and the driver

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._futures = {name: loop.create_future() for name in ("ready", "started", "exited", "empty")}
        watchdog = self._watchdog = self.watchdog_kind(self._machine, self._drivers, self._run, self._runner, self._heard)
        watchdog.process.when_dead(self._runner.process, self._watchdog_dead)
        self.renew(self._deadline)
        if self._cause is not None:
            self._tell(Kill())

    def _tell(self, message: Deadline | Start | Kill) -> None:
        if self._watchdog is not None:
            self._watchdog.tell(message)

    async def _hear_of(self, what: str) -> Any:
        return await asyncio.shield(self._futures[what])

    def _heard(self, what: str, detail: Any = None) -> None:
        if what == "refused":
            self._resolve("started", None)
        else:
            self._resolve(what, detail)
        if what == "empty":
            for name in self._futures:
                self._resolve(name, End.KILLED if name == "exited" else None)

    def _resolve(self, name: str, value: Any) -> None:
        if not self._futures[name].done():
            self._futures[name].set_result(value)

    def _watchdog_dead(self) -> None:
        if not self._futures["empty"].done():
            self._take_over()

    def renew(self, deadline: float) -> None:
        self._deadline = deadline
        self._tell(Deadline(deadline))
        self._watch_deadline()

    def _watch_deadline(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
        if self._watchdog is not None and not self._futures["empty"].done():
            wait_s = max(0.0, self._deadline + OVERDUE_S - self._machine.clock.boottime())
            self._overdue = asyncio.get_running_loop().call_later(wait_s, self._look_at_deadline)

    def _look_at_deadline(self) -> None:
        if self._machine.clock.boottime() >= self._deadline + OVERDUE_S:
            self._take_over()
        else:
            self._watch_deadline()

    def _take_over(self) -> None:
        """The watchdog is dead or paused: first it, so that it starts nothing any more, then the tree."""
        if self._killing is None:
            self._killing = asyncio.ensure_future(self._kill_without_watchdog())

    async def _kill_without_watchdog(self) -> None:
        assert self._watchdog is not None
        await asyncio.sleep(self._machine.random.uniform(0.0, 0.05))
        self._machine.kill(self._watchdog.process)
        driver = self._watchdog.driver
        if driver is not None:
            await ended(driver)
        self._heard("exited", driver.end if driver is not None else End.KILLED)
        self._heard("empty")

    async def _kill(self) -> None:
        if self._watchdog is None or self._futures["empty"].done():
            return
        self._tell(Kill())
        try:
            async with asyncio.timeout(IMPATIENCE_S):
                await self._hear_of("empty")
        except TimeoutError:
            self._take_over()
            await self._hear_of("empty")

    def _settle(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()

    def _judge(self, end: End | None, died_at: float) -> Outcome:
        if end in (None, End.KILLED):
            if self._cause is not None:
                return self._cause
            if died_at >= self._deadline:
                return Outcome(Ending.LOST, "its lease could not be confirmed before the deadline, so it was ended")
            return Outcome(Ending.LOST, "its watchdog was killed, and the driver with it")
        if end is End.STOPPED:
            return Outcome(Ending.STOPPED, "it stopped at a batch boundary, as asked")
        return Outcome(Ending(end.value), f"the driver {end.value}")

    # What the runner says meanwhile

    def ask_to_stop(self) -> None:
        self._stop_asked = True
        driver = self._watchdog.driver if self._watchdog is not None else None
        if self.driver_pid is None or driver is None:
            self.end(Outcome(Ending.STOPPED, "it was asked to stop before its driver was started"))
        else:
            driver.ask_to_stop()

    def press_to_stop(self) -> None:
        """By a signal, which the simulated programs do not care about."""

    def end(self, cause: Outcome) -> None:
        self._cause = self._cause or cause
        if self._watchdog is not None:
            self._ends.append(asyncio.ensure_future(self._kill()))

    def progress(self) -> Progress | None:
        return None

    def keep_session(self, session: SessionId) -> None:
        self._files.session = session


async def ended(driver: Driver) -> None:
    """Kill it, and wait until it is dead."""
    while driver.process is not None and driver.process.alive:
        driver.strike()
        await asyncio.sleep(0.05)
