"""A machine: its processes, what its kernel does to them, and what stays on its disk.

A machine can stand still as a whole (a suspended or overcommitted host): then nothing on it runs, and its clocks go on. It can
lose its power: then every process is gone, and so is whatever was written and not yet forced to the disk.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.model.job import Outcome
from holdfast.node.attempts import AttemptName
from holdfast.zk.session.client import SessionId
from tests.sim.process import Process, SimClock
from tests.sim.world import World

if TYPE_CHECKING:
    from tests.sim.jobs.watchdog import Watchdog

KILL_S_MAX = 0.9
"""From SIGKILL to the end of a whole tree; the settings allow a second."""


class SimProcess:
    """One process, with a name that is never used again."""

    __slots__ = ("_watchers", "alive", "ended_s", "machine", "name", "process")

    def __init__(self, machine: "Machine", name: str, process: Process) -> None:
        self.machine = machine
        self.name = name
        self.process = process
        self.alive = True
        self.ended_s: float | None = None
        self._watchers: list[tuple[Process, Callable[[], object]]] = []

    def when_dead(self, watcher: Process, tell: Callable[[], object]) -> None:
        """As a pidfd does: by the kernel, to whoever is there to hear it."""
        if self.alive:
            self._watchers.append((watcher, tell))
        else:
            self.machine.world.loop.arrive(watcher, tell)

    def ended(self) -> None:
        self.alive = False
        self.ended_s = self.machine.world.now_s
        watchers, self._watchers = self._watchers, []
        for watcher, tell in watchers:
            if not watcher.crashed:
                self.machine.world.loop.arrive(watcher, tell)


@dataclass
class AttemptFiles:
    """The directory of one attempt."""

    runner: SimProcess | None = None
    """Who holds its lock, if it is alive."""
    session: SessionId | None = None
    outcome: Outcome | None = None
    buried: bool = False


class SimFile:
    """As much of a path as `Promises` needs. What is not forced to the disk is lost with the power."""

    def __init__(self) -> None:
        self._cached: bytes | None = None
        self._stored: bytes | None = None

    def read_bytes(self) -> bytes:
        if self._cached is None:
            raise FileNotFoundError
        return self._cached

    def write(self, data: bytes, *, fsync: bool) -> None:
        self._cached = data
        if fsync:
            self._stored = data

    def power_lost(self) -> None:
        self._cached = self._stored


@dataclass
class Disk:
    attempts: dict[AttemptName, AttemptFiles] = field(default_factory=dict)
    promises: SimFile = field(default_factory=SimFile)


class Machine:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.disk = Disk()
        self.boots = 1
        self.paused = False
        self.resumed_s = float("-inf")
        self.random = random.Random(f"{world.seed}/{name}/machine")
        self.on_resume: list[Callable[[Machine], object]] = []
        self.watchdogs: dict[str, Watchdog] = {}
        """By the nonce of their attempt, the dead ones too."""
        self._processes: list[SimProcess] = []
        self._stopped_with_it: list[Process] = []
        self._count = 0

    @property
    def boot(self) -> str:
        return f"{self.name}-{self.boots}"

    @property
    def clock(self) -> SimClock:
        return self.world.clock(f"{self.name}/kernel")

    @property
    def kernel(self) -> Process:
        """Not a process that can be paused or killed by itself: it stands for what the kernel does in its own time."""
        return self.world.process(f"{self.name}/kernel")

    # Processes

    def spawn(self, what: str, start: Callable[[SimProcess], Coroutine[Any, Any, object]]) -> SimProcess:
        """It ends when its coroutine does."""
        self._count += 1
        name = f"{self.name}/{what}.{self._count}"
        spawned = SimProcess(self, name, self.world.process(name))
        self._processes.append(spawned)

        async def live() -> None:
            await start(spawned)
            self.world.loop.at(self.world.now_s, self.kill, spawned)

        self.world.spawn(name, live)
        if self.paused:
            self._stop(spawned.process)
        return spawned

    def kill(self, process: SimProcess) -> None:
        """SIGKILL, to one process that takes no time to die."""
        if not process.alive:
            return
        self.world.record("dead", process.name)
        self.world.loop.crash(process.process)
        self._processes.remove(process)
        process.ended()

    def find(self, name: str) -> SimProcess | None:
        return next((process for process in self._processes if process.name == name), None)

    def soon(self, delay_s: float, action: Callable[..., object], *args: Any) -> None:
        """What the kernel does a little later, or when the machine goes on."""
        self.world.loop.at(self.world.now_s + delay_s, self.world.loop.timer_due, self.kernel, action, *args)

    def kill_time_s(self) -> float:
        return self.random.uniform(0.002, KILL_S_MAX if self.random.random() < 0.5 else 0.1)

    # The whole machine

    def pause(self) -> None:
        if self.paused:
            return
        self.paused = True
        self.world.record("pause machine", self.name)
        _ = self.kernel
        for process in self.world.processes_of(self.name):
            if not process.stopped or not process.whole:
                self._stop(process)

    def _stop(self, process: Process) -> None:
        if process.stopped and not process.whole:
            self.world.loop.resume(process)  # its loop hung; now all of it stands still, and hangs no more afterwards
        self.world.loop.pause(process)
        self._stopped_with_it.append(process)

    def resume(self) -> None:
        if not self.paused:
            return
        self.paused = False
        self.resumed_s = self.world.now_s
        self.world.record("resume machine", self.name)
        stopped, self._stopped_with_it = self._stopped_with_it, []
        for process in stopped:
            self.world.loop.resume(process)
        for callback in self.on_resume:
            callback(self)

    def lose_power(self) -> None:
        self.world.record("power lost", self.name)
        self.paused = False
        self._stopped_with_it.clear()
        processes, self._processes = self._processes, []
        self.world.crash_machine(self.name)
        for process in processes:
            process.alive = False
            process.ended_s = self.world.now_s
        self.disk.promises.power_lost()
        self.boots += 1
