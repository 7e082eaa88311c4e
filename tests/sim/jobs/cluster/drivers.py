"""Simulated drivers, with kernel evidence of when each one was alive."""

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import Spec
from tests.sim.jobs.cluster.machine import SimMachine, SimProcess

SPARK_START_S_MAX = 2.0


class DriverEnd(enum.StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    DATA_LOSS = "data loss"
    """Data loss in the source; a user must decide."""
    STOPPED = "stopped"
    """Graceful stop at a batch boundary."""
    KILLED = "killed"
    POWER = "power lost"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Behaviour of a job's program, encoded in the job's arguments."""

    end: DriverEnd | None
    """End of the program by itself, or None if it runs until it is stopped."""
    after_s: float
    batch_s: float
    """Seconds from a stop request to the stop."""

    def arguments(self) -> tuple[str, ...]:
        return (self.end.value if self.end else "", f"{self.after_s:.3f}", f"{self.batch_s:.3f}")

    @classmethod
    def from_spec(cls, spec: Spec) -> "Behaviour":
        end, after_s, batch_s = spec.arguments
        return cls(DriverEnd(end) if end else None, float(after_s), float(batch_s))


class Driver:
    """Driver process tree, simulated as one process."""

    def __init__(
        self, drivers: "DriverRegistry", machine: SimMachine, job: JobId, attempt: Attempt, nonce: str, spec: Spec
    ) -> None:
        self._drivers = drivers
        self.machine = machine
        self.job = job
        self.attempt = attempt
        self.nonce = nonce
        self.behaviour = Behaviour.from_spec(spec)
        # A separate generator keeps the schedules, whose seeds are recorded, as they are.
        self.spark_start_s = Random(f"{machine.world.seed}/{nonce}/spark").choice((0.0, 0.3, SPARK_START_S_MAX))
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self.end: DriverEnd | None = None
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

    @property
    def has_spark(self) -> bool:
        return self.started_s is not None and self.machine.world.now_s >= self.started_s + self.spark_start_s

    async def run(self, may_start: Callable[[], bool], started: Callable[[], object], own: SimProcess) -> None:
        """Run from the fork to the end of the program."""
        self.process = own
        await asyncio.sleep(self.machine.random.uniform(0.0005, 0.02))
        if not may_start():
            self.ended_s = self.machine.world.now_s
            return
        self.started_s = self.machine.world.now_s
        self._drivers.record_start(self)
        started()
        self._drivers.record_end(self, await self._run_program())

    async def _run_program(self) -> DriverEnd:
        behaviour = self.behaviour
        try:
            async with asyncio.timeout(behaviour.after_s if behaviour.end is not None else None):
                await self._stop.wait()
        except TimeoutError:
            assert behaviour.end is not None
            return behaviour.end
        await asyncio.sleep(behaviour.batch_s)
        return DriverEnd.STOPPED

    def request_stop(self) -> None:
        if self.process is not None and self.process.alive:
            self.machine.world.loop.deliver(self.process.process, self._stop.set)

    def send_sigkill(self) -> None:
        """Send SIGKILL to the whole tree. It dies after a random kill time."""
        self.machine.schedule_in_kernel(self.machine.kill_time_s(), self.finish_kill)

    def finish_kill(self) -> None:
        if self.process is None or not self.process.alive:
            return
        if self.alive:
            self._drivers.record_end(self, DriverEnd.KILLED)
        self.ended_s = self.machine.world.now_s if self.ended_s is None else self.ended_s
        self.machine.kill(self.process)


class DriverRegistry:
    """Registry of all drivers that were ever started, in order of their start."""

    def __init__(self) -> None:
        self.history: list[Driver] = []
        self.on_start_request: Callable[[SimMachine], object] = lambda _: None
        self.on_fork: Callable[[Driver], object] = lambda _: None
        self.on_start: list[Callable[[Driver], object]] = []
        self.on_end: list[Callable[[Driver], object]] = []
        self._pids = 100
        self._living: dict[Driver, None] = {}

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    def record_start(self, driver: Driver) -> None:
        world = driver.machine.world
        world.record("driver", driver.job, driver.attempt, driver.machine.name, driver.pid)
        self.history.append(driver)
        self._living[driver] = None
        for callback in self.on_start:
            callback(driver)

    def record_end(self, driver: Driver, end: DriverEnd) -> None:
        if driver.ended_s is not None:
            return
        driver.ended_s, driver.end = driver.machine.world.now_s, end
        driver.machine.world.record("driver ended", driver.job, driver.attempt, driver.pid, end.value)
        self._living.pop(driver, None)
        for callback in self.on_end:
            callback(driver)

    def mark_power_lost(self, machine: SimMachine) -> None:
        for driver in [driver for driver in self._living if driver.machine is machine]:
            self.record_end(driver, DriverEnd.POWER)

    def list_alive(self, job: JobId | None = None) -> list[Driver]:
        return [driver for driver in self._living if job is None or driver.job == job]

    def list_of_job(self, job: JobId) -> list[Driver]:
        return [driver for driver in self.history if driver.job == job]
