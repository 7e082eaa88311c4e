"""The drivers: users' programs, and the kernel's evidence of when each of them lived."""

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import Spec
from tests.sim.jobs.machine import Machine, SimProcess


class End(enum.StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    DATA_LOSS = "data loss"
    """Of its source: a person has to decide."""
    STOPPED = "stopped"
    """At a batch boundary, as asked."""
    KILLED = "killed"
    POWER = "power lost"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a job's program does, spelled in its arguments."""

    end: End | None
    """How it ends by itself; None: it runs until it is stopped."""
    after_s: float
    batch_s: float
    """How long it takes to stop when it is asked to."""

    def arguments(self) -> tuple[str, ...]:
        return (self.end.value if self.end else "", f"{self.after_s:.3f}", f"{self.batch_s:.3f}")

    @classmethod
    def of(cls, spec: Spec) -> "Behaviour":
        end, after_s, batch_s = spec.arguments
        return cls(End(end) if end else None, float(after_s), float(batch_s))


class Driver:
    """A whole tree of processes, as one."""

    def __init__(self, drivers: "Drivers", machine: Machine, job: JobId, attempt: Attempt, nonce: str, spec: Spec) -> None:
        self._drivers = drivers
        self.machine = machine
        self.job = job
        self.attempt = attempt
        self.nonce = nonce
        self.behaviour = Behaviour.of(spec)
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self.end: End | None = None
        self.pid = drivers.next_pid()
        self.process: SimProcess | None = None
        self.runner: SimProcess | None = None
        self.watchdog: SimProcess | None = None
        self._stop = asyncio.Event()

    def __repr__(self) -> str:
        return f"attempt {self.attempt} of {self.job} on {self.machine.name} (pid {self.pid})"

    @property
    def alive(self) -> bool:
        return self.started_s is not None and self.ended_s is None

    async def live(self, may_start: Callable[[], bool], started: Callable[[], object], own: SimProcess) -> None:
        """From the fork to the end of the program."""
        self.process = own
        await asyncio.sleep(self.machine.random.uniform(0.0005, 0.02))
        if not may_start():
            self.ended_s = self.machine.world.now_s
            return
        self.started_s = self.machine.world.now_s
        self._drivers.note_start(self)
        started()
        self._drivers.note_end(self, await self._work())

    async def _work(self) -> End:
        behaviour = self.behaviour
        try:
            async with asyncio.timeout(behaviour.after_s if behaviour.end is not None else None):
                await self._stop.wait()
        except TimeoutError:
            assert behaviour.end is not None
            return behaviour.end
        await asyncio.sleep(behaviour.batch_s)
        return End.STOPPED

    def ask_to_stop(self) -> None:
        if self.process is not None and self.process.alive:
            self.machine.world.loop.arrive(self.process.process, self._stop.set)

    def strike(self) -> None:
        """SIGKILL to the whole tree. It is dead when the kernel is done with it."""
        self.machine.soon(self.machine.kill_time_s(), self.die)

    def die(self) -> None:
        if self.process is None or not self.process.alive:
            return
        if self.alive:
            self._drivers.note_end(self, End.KILLED)
        self.ended_s = self.machine.world.now_s if self.ended_s is None else self.ended_s
        self.machine.kill(self.process)


class Drivers:
    """Everyone who ever lived, in order."""

    def __init__(self) -> None:
        self.all: list[Driver] = []
        self.on_gate: Callable[[Machine], object] = lambda _: None
        self.on_fork: Callable[[Driver], object] = lambda _: None
        self.on_start: list[Callable[[Driver], object]] = []
        self.on_end: list[Callable[[Driver], object]] = []
        self._pids = 100
        self._living: dict[Driver, None] = {}

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    def note_start(self, driver: Driver) -> None:
        world = driver.machine.world
        world.record("driver", driver.job, driver.attempt, driver.machine.name, driver.pid)
        self.all.append(driver)
        self._living[driver] = None
        for callback in self.on_start:
            callback(driver)

    def note_end(self, driver: Driver, end: End) -> None:
        if driver.ended_s is not None:
            return
        driver.ended_s, driver.end = driver.machine.world.now_s, end
        driver.machine.world.record("driver ended", driver.job, driver.attempt, driver.pid, end.value)
        self._living.pop(driver, None)
        for callback in self.on_end:
            callback(driver)

    def power_lost(self, machine: Machine) -> None:
        for driver in [driver for driver in self._living if driver.machine is machine]:
            self.note_end(driver, End.POWER)

    def living(self, job: JobId | None = None) -> list[Driver]:
        return [driver for driver in self._living if job is None or driver.job == job]

    def of_job(self, job: JobId) -> list[Driver]:
        return [driver for driver in self.all if driver.job == job]
