"""Execution of one attempt: claim the checkpoint, start the driver through a watchdog, and save the outcome.

It follows `holdfast.runner.execution.driver` and `watchdog_client`, on the simulated kernel and storage.
"""

import asyncio
from typing import Any

from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.job import Ending, Outcome, Progress, Report, Spec
from holdfast.runner.lease import AttemptAssignment
from holdfast.zk.session.client import SessionId
from tests.sim.jobs.cluster.drivers import Driver, DriverEnd, DriverRegistry
from tests.sim.jobs.cluster.machine import SimAttemptDirectory, SimMachine, SimProcess
from tests.sim.jobs.cluster.shared_storage import SharedStorage
from tests.sim.jobs.cluster.watchdog import KillTree, SetDeadline, SimWatchdog, StartDriver

DEADLINE_GRACE_S = 1.0
KILL_TIMEOUT_S = 3.0


class _AttemptEnded(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class SimDriverExecution:
    """Simulated `holdfast.runner.interfaces.DriverExecution`."""

    watchdog_class = SimWatchdog

    def __init__(
        self,
        assignment: AttemptAssignment,
        machine: SimMachine,
        files: SimAttemptDirectory,
        runner: SimProcess,
        drivers: DriverRegistry,
        storage: SharedStorage,
    ) -> None:
        self._assignment = assignment
        self._machine = machine
        self._files = files
        self._runner = runner
        self._drivers = drivers
        self._storage = storage
        self._deadline = float("-inf")
        self._cause: Outcome | None = None
        self._stop_requested = False
        self._watchdog: SimWatchdog | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._killing: asyncio.Task[None] | None = None
        self._kill_tasks: list[asyncio.Task[None]] = []
        self._futures: dict[str, asyncio.Future[Any]] = {}
        self.driver_pid: int | None = None
        self.isolation = ""
        self.claimed_checkpoint = ""
        self.application = None
        self.note = ""
        self.batch_s = 0.0
        self.has_queries = True

    async def run_driver(self, spec: Spec, previous_report: Report | None, trust: CheckpointTrust | None = None) -> Outcome:
        try:
            return await self._execute(spec, previous_report)
        except _AttemptEnded as ended:
            return ended.outcome

    async def _execute(self, spec: Spec, previous_report: Report | None) -> Outcome:
        await self._claim_checkpoint(previous_report, is_scheduled=spec.schedule is not None)
        self._raise_if_killed()
        self._start_watchdog()
        try:
            await self._wait_for("ready")
            self._raise_if_killed()
            self._send(StartDriver(spec))
            self.driver_pid = await self._wait_for("started")
            if self.driver_pid is None:
                raise _AttemptEnded(self._late_start_outcome())
            end: DriverEnd = await self._wait_for("exited")
            died_at = self._machine.clock.boottime()
            await self._wait_for("empty")
            return self._classify_end(end, died_at)
        finally:
            await self._kill()
            self._cancel_deadline_timer()

    def _late_start_outcome(self) -> Outcome:
        """Return the outcome of a start that came too late. It is LOST: the job is not at fault."""
        return self._cause or Outcome(Ending.LOST, "the driver could not be started in time")

    def _raise_if_killed(self) -> None:
        if self._cause is not None:
            raise _AttemptEnded(self._cause)

    # Checkpoint

    async def _claim_checkpoint(self, previous_report: Report | None, *, is_scheduled: bool) -> None:
        assignment = self._assignment
        earlier = await self._storage.find_unreported_outcome(
            assignment.job, assignment.attempt, previous_report, is_scheduled=is_scheduled
        )
        if earlier is not None:
            reason = f"attempt {earlier.attempt} ended without a report: {earlier.outcome.reason}"
            raise _AttemptEnded(Outcome(earlier.outcome.ending, reason))
        if not await self._storage.claim(assignment.job, assignment.attempt, assignment.nonce):
            raise _AttemptEnded(Outcome(Ending.CHECKPOINT_CONFLICT, "another attempt has claimed the checkpoint"))

    async def save_outcome(self, outcome: Outcome) -> None:
        await asyncio.sleep(self._machine.random.uniform(0.0005, 0.005))
        self._files.outcome = outcome
        if outcome.ending not in (Ending.LOST, Ending.STOPPED, Ending.CHECKPOINT_CONFLICT):
            await self._storage.save_outcome(self._assignment.job, self._assignment.attempt, outcome)

    # Watchdog and driver

    def _start_watchdog(self) -> None:
        loop = asyncio.get_running_loop()
        self._futures = {name: loop.create_future() for name in ("ready", "started", "exited", "empty")}
        watchdog = self._watchdog = self.watchdog_class(
            self._machine, self._drivers, self._assignment, self._runner, self._on_watchdog_message
        )
        watchdog.process.on_exit(self._runner.process, self._on_watchdog_exit)
        self.set_deadline(self._deadline)
        if self._cause is not None:
            self._send(KillTree())

    def _send(self, message: SetDeadline | StartDriver | KillTree) -> None:
        if self._watchdog is not None:
            self._watchdog.send(message)

    async def _wait_for(self, event: str) -> Any:
        return await asyncio.shield(self._futures[event])

    def _on_watchdog_message(self, event: str, detail: Any = None) -> None:
        if event == "refused":
            self._resolve("started", None)
        else:
            self._resolve(event, detail)
        if event == "empty":
            for name in self._futures:
                self._resolve(name, DriverEnd.KILLED if name == "exited" else None)

    def _resolve(self, name: str, value: Any) -> None:
        if not self._futures[name].done():
            self._futures[name].set_result(value)

    def _on_watchdog_exit(self) -> None:
        if not self._futures["empty"].done():
            self._start_own_kill()

    def set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        self._send(SetDeadline(deadline))
        self._watch_deadline()

    def _watch_deadline(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        if self._watchdog is not None and not self._futures["empty"].done():
            wait_s = max(0.0, self._deadline + DEADLINE_GRACE_S - self._machine.clock.boottime())
            self._deadline_timer = asyncio.get_running_loop().call_later(wait_s, self._check_deadline)

    def _check_deadline(self) -> None:
        if self._machine.clock.boottime() >= self._deadline + DEADLINE_GRACE_S:
            self._start_own_kill()
        else:
            self._watch_deadline()

    def _start_own_kill(self) -> None:
        """Kill a dead or paused watchdog, so that it starts nothing afterwards, and then the tree."""
        if self._killing is None:
            self._killing = asyncio.ensure_future(self._kill_without_watchdog())

    async def _kill_without_watchdog(self) -> None:
        assert self._watchdog is not None
        await asyncio.sleep(self._machine.random.uniform(0.0, 0.05))
        self._machine.kill(self._watchdog.process)
        driver = self._watchdog.driver
        if driver is not None:
            await kill_and_wait(driver)
        self._on_watchdog_message("exited", driver.end if driver is not None else DriverEnd.KILLED)
        self._on_watchdog_message("empty")

    async def _kill(self) -> None:
        if self._watchdog is None or self._futures["empty"].done():
            return
        self._send(KillTree())
        try:
            async with asyncio.timeout(KILL_TIMEOUT_S):
                await self._wait_for("empty")
        except TimeoutError:
            self._start_own_kill()
            await self._wait_for("empty")

    def _cancel_deadline_timer(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()

    def _classify_end(self, end: DriverEnd | None, died_at: float) -> Outcome:
        if end in (None, DriverEnd.KILLED):
            if self._cause is not None:
                return self._cause
            if died_at >= self._deadline:
                return Outcome(Ending.LOST, "the lease was not confirmed before the deadline, so the driver was killed")
            return Outcome(Ending.LOST, "the watchdog was killed, and the driver with it")
        if end is DriverEnd.STOPPED:
            return Outcome(Ending.STOPPED, "the job stopped at a batch boundary, as requested")
        return Outcome(Ending(end.value), f"the driver {end.value}")

    # Calls of the runner

    def request_stop(self) -> None:
        self._stop_requested = True
        driver = self._watchdog.driver if self._watchdog is not None else None
        if self.driver_pid is None or driver is None:
            self.kill(Outcome(Ending.STOPPED, "the stop was requested before the driver was started"))
        else:
            driver.request_stop()

    def send_sigterm(self) -> None:
        """Do nothing: the simulated programs ignore SIGTERM."""

    def kill(self, cause: Outcome) -> None:
        self._cause = self._cause or cause
        if self._watchdog is not None:
            self._kill_tasks.append(asyncio.ensure_future(self._kill()))

    @property
    def is_ready(self) -> bool:
        """Return True once the driver has had the time that Spark takes to start, which differs from attempt to attempt."""
        driver = self._watchdog.driver if self._watchdog is not None else None
        return self.driver_pid is not None and driver is not None and driver.has_spark

    def progress(self) -> Progress | None:
        return None

    def save_session(self, session: SessionId) -> None:
        self._files.session = session


async def kill_and_wait(driver: Driver) -> None:
    """Kill the driver and wait until it is dead."""
    while driver.process is not None and driver.process.alive:
        driver.send_sigkill()
        await asyncio.sleep(0.05)
