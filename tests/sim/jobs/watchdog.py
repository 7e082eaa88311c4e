"""The watchdog of one attempt: the driver's parent, in a process of its own. It does what `holdfast.runner.watchdog` does."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.job import Spec
from holdfast.runner.lease import Run
from holdfast.wakeup import Alarm
from tests.sim.jobs.drivers import Driver, Drivers
from tests.sim.jobs.machine import Machine, SimProcess

FOREVER_S = 1e6


@dataclass(frozen=True, slots=True)
class Deadline:
    at: float


@dataclass(frozen=True, slots=True)
class Start:
    spec: Spec


@dataclass(frozen=True, slots=True)
class Kill:
    pass


Message = Deadline | Start | Kill


class Watchdog:
    """At the deadline, when the runner is dead, or when it is told to, it kills the tree. Past the deadline nothing starts."""

    gated = True
    watches_deadline = True

    def __init__(self, machine: Machine, drivers: Drivers, run: Run, runner: SimProcess, say: Callable[..., object]) -> None:
        """`say` is how the runner hears of things; it is called in the runner's process, if that still lives."""
        self._machine = machine
        self._drivers = drivers
        self._run = run
        self._runner = runner
        self._say_to = say
        self._alarm = Alarm()
        self._inbox: list[Message] = []
        self._deadline: float | None = None
        self._why = ""
        self.driver: Driver | None = None
        self.process = machine.spawn(f"watchdog-{run.job}-{run.attempt}", lambda _: self._live())
        machine.watchdogs[run.nonce] = self
        runner.when_dead(self.process.process, self._alarm.ring)
        # PDEATHSIG: the kernel kills the driver with its parent.
        self.process.when_dead(machine.kernel, self._orphaned)

    def tell(self, message: Message) -> None:
        """Through a socket: it is there even if the sender dies at once."""
        if self.process.alive:
            self._machine.world.loop.arrive(self.process.process, self._receive, message)

    def _receive(self, message: Message) -> None:
        self._inbox.append(message)
        self._alarm.ring()

    def _say(self, *message: object) -> None:
        if self._runner.alive:
            self._machine.world.loop.arrive(self._runner.process, self._say_to, *message)

    async def _live(self) -> None:
        await asyncio.sleep(self._machine.random.uniform(0.01, 0.1))
        self._say("ready")
        while not self._why:
            await self._turn()
            if not self._why:
                await self._alarm.wait(self._wait_s())
        await self._end()

    def _wait_s(self) -> float:
        if self._deadline is None or not self.watches_deadline:
            return FOREVER_S
        return max(0.0, self._deadline - self._now()) + 1e-6

    def _now(self) -> float:
        return self._machine.clock.boottime()

    async def _turn(self) -> None:
        if not self._runner.alive:
            self._why = "the runner is dead"
            return
        inbox, self._inbox = self._inbox, []
        for message in inbox:
            await self._obey(message)
        if self._why:
            return
        if self._past_deadline() and self.watches_deadline:
            self._why = "the deadline has passed"
        elif self.driver is not None and self.driver.ended_s is not None:
            self._why = "the driver has ended"

    def _past_deadline(self) -> bool:
        return self._deadline is None or self._now() >= self._deadline

    async def _obey(self, message: Message) -> None:
        match message:
            case Deadline(at):
                self._deadline = at
            case Kill():
                self._why = "the runner asked for it"
            case Start(spec) if not self._why:
                self._drivers.on_gate(self._machine)
                # The runner may die, or this process be paused, after it was seen alive and before anything is started.
                await asyncio.sleep(self._machine.random.uniform(0.0, 0.005))
                self._start(spec)

    def _start(self, spec: Spec) -> None:
        if self.gated and self._past_deadline():
            self._say("refused", "the deadline had passed before the driver was started")
            return
        run = self._run
        driver = self.driver = Driver(self._drivers, self._machine, run.job, run.attempt, run.nonce, spec)
        driver.runner, driver.watchdog = self._runner, self.process
        deadline = self._deadline

        def may_start() -> bool:
            """In the child, just before it becomes the driver. Its parent may be dead by then, and PDEATHSIG was too early."""
            in_time = deadline is not None and self._now() < deadline
            return self.process.alive and (in_time or not self.gated)

        child = self._machine.spawn(
            f"driver-{run.job}-{run.attempt}",
            lambda own: driver.live(may_start, lambda: self._say("started", driver.pid), own),
        )
        driver.process = child
        child.when_dead(self.process.process, self._child_ended)
        self._drivers.on_fork(driver)

    def _child_ended(self) -> None:
        assert self.driver is not None
        if self.driver.started_s is None:
            self._say("refused", "the deadline passed while the driver was being started")
        else:
            self._say("exited", self.driver.end)
        self._alarm.ring()

    async def _end(self) -> None:
        """Kill until nothing is left."""
        driver = self.driver
        if driver is not None and driver.process is not None and driver.process.alive:
            await asyncio.sleep(self._machine.random.uniform(0.0, 0.01))
            driver.strike()
            while driver.process.alive:
                await self._alarm.wait(FOREVER_S)
        self._say("empty", self._why)

    def _orphaned(self) -> None:
        if self.driver is not None:
            self.driver.strike()
