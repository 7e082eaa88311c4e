"""Simulated watchdog of one attempt, the parent process of the driver. It follows `holdfast.runner.watchdog`."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.job import Spec
from holdfast.runner.lease import AttemptAssignment
from holdfast.wakeup import Wakeup
from tests.sim.jobs.cluster.drivers import Driver, DriverRegistry
from tests.sim.jobs.cluster.machine import SimMachine, SimProcess

FOREVER_S = 1e6


@dataclass(frozen=True, slots=True)
class SetDeadline:
    at: float


@dataclass(frozen=True, slots=True)
class StartDriver:
    spec: Spec


@dataclass(frozen=True, slots=True)
class KillTree:
    pass


Message = SetDeadline | StartDriver | KillTree


class SimWatchdog:
    """Watchdog. It kills the tree at the deadline, when the runner dies, or on request. It starts nothing late."""

    checks_deadline_at_start = True
    kills_at_deadline = True

    def __init__(
        self,
        machine: SimMachine,
        drivers: DriverRegistry,
        assignment: AttemptAssignment,
        runner: SimProcess,
        callback: Callable[..., object],
    ) -> None:
        """`callback` receives the watchdog's messages in the runner's process, while that process is alive."""
        self._machine = machine
        self._drivers = drivers
        self._assignment = assignment
        self._runner = runner
        self._runner_callback = callback
        self._wakeup = Wakeup()
        self._inbox: list[Message] = []
        self._deadline: float | None = None
        self._kill_reason = ""
        self.driver: Driver | None = None
        self.process = machine.spawn(f"watchdog-{assignment.job}-{assignment.attempt}", lambda _: self._run_until_killed())
        machine.watchdogs[assignment.nonce] = self
        runner.on_exit(self.process.process, self._wakeup.wake)
        # PDEATHSIG: the kernel kills the driver with its parent.
        self.process.on_exit(machine.kernel, self._kill_orphaned_driver)

    def send(self, message: Message) -> None:
        """Send a message through a socket: it arrives even if the sender dies at once."""
        if self.process.alive:
            self._machine.world.loop.deliver(self.process.process, self._receive, message)

    def _receive(self, message: Message) -> None:
        self._inbox.append(message)
        self._wakeup.wake()

    def _notify_runner(self, *message: object) -> None:
        if self._runner.alive:
            self._machine.world.loop.deliver(self._runner.process, self._runner_callback, *message)

    async def _run_until_killed(self) -> None:
        await asyncio.sleep(self._machine.random.uniform(0.01, 0.1))
        self._notify_runner("ready")
        while not self._kill_reason:
            await self._process_messages()
            if not self._kill_reason:
                await self._wakeup.wait(self._wait_s())
        await self._kill_tree()

    def _wait_s(self) -> float:
        if self._deadline is None or not self.kills_at_deadline:
            return FOREVER_S
        return max(0.0, self._deadline - self._now()) + 1e-6

    def _now(self) -> float:
        return self._machine.clock.boottime()

    async def _process_messages(self) -> None:
        if not self._runner.alive:
            self._kill_reason = "the runner is dead"
            return
        inbox, self._inbox = self._inbox, []
        for message in inbox:
            await self._handle(message)
        if self._kill_reason:
            return
        if self._past_deadline() and self.kills_at_deadline:
            self._kill_reason = "the deadline has passed"
        elif self.driver is not None and self.driver.ended_s is not None:
            self._kill_reason = "the driver has ended"

    def _past_deadline(self) -> bool:
        return self._deadline is None or self._now() >= self._deadline

    async def _handle(self, message: Message) -> None:
        match message:
            case SetDeadline(at):
                self._deadline = at
            case KillTree():
                self._kill_reason = "the runner requested it"
            case StartDriver(spec) if not self._kill_reason:
                self._drivers.on_start_request(self._machine)
                # The runner may die, or this process may be paused, between the check and the start.
                await asyncio.sleep(self._machine.random.uniform(0.0, 0.005))
                self._start_driver(spec)

    def _start_driver(self, spec: Spec) -> None:
        if self.checks_deadline_at_start and self._past_deadline():
            self._notify_runner("refused", "the deadline had passed before the driver was started")
            return
        assignment = self._assignment
        driver = self.driver = Driver(self._drivers, self._machine, assignment.job, assignment.attempt, assignment.nonce, spec)
        driver.runner, driver.watchdog = self._runner, self.process
        deadline = self._deadline

        def may_start() -> bool:
            """Check in the child, just before it becomes the driver: its parent may have died before PDEATHSIG was set."""
            in_time = deadline is not None and self._now() < deadline
            return self.process.alive and (in_time or not self.checks_deadline_at_start)

        child = self._machine.spawn(
            f"driver-{assignment.job}-{assignment.attempt}",
            lambda own: driver.run(may_start, lambda: self._notify_runner("started", driver.pid), own),
        )
        driver.process = child
        child.on_exit(self.process.process, self._on_driver_exit)
        self._drivers.on_fork(driver)

    def _on_driver_exit(self) -> None:
        assert self.driver is not None
        if self.driver.started_s is None:
            self._notify_runner("refused", "the deadline passed while the driver was being started")
        else:
            self._notify_runner("exited", self.driver.end)
        self._wakeup.wake()

    async def _kill_tree(self) -> None:
        """Kill the tree until no process is left."""
        driver = self.driver
        if driver is not None and driver.process is not None and driver.process.alive:
            await asyncio.sleep(self._machine.random.uniform(0.0, 0.01))
            driver.send_sigkill()
            while driver.process.alive:
                await self._wakeup.wait(FOREVER_S)
        self._notify_runner("empty", self._kill_reason)

    def _kill_orphaned_driver(self) -> None:
        if self.driver is not None:
            self.driver.send_sigkill()
