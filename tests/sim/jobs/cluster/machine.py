"""Simulated machine: its processes, the actions of its kernel, and its disk.

A machine can be paused as a whole (a suspended or overcommitted host): nothing on it runs, but its clocks continue. It can lose
its power: every process ends, and data that was not synced to disk is lost.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.model.identifiers import NodeId
from holdfast.model.job import Outcome
from holdfast.node.attempts import AttemptId
from holdfast.zk.session.client import SessionId
from tests.sim.process import Process, SimClock
from tests.sim.world import World

if TYPE_CHECKING:
    from tests.sim.jobs.cluster.watchdog import SimWatchdog

KILL_S_MAX = 0.9
"""Maximum time from SIGKILL to the end of a whole tree. The timing settings allow one second."""


class SimProcess:
    """Process with a unique name."""

    __slots__ = ("_watchers", "alive", "ended_s", "machine", "name", "process")

    def __init__(self, machine: "SimMachine", name: str, process: Process) -> None:
        self.machine = machine
        self.name = name
        self.process = process
        self.alive = True
        self.ended_s: float | None = None
        self._watchers: list[tuple[Process, Callable[[], object]]] = []

    def on_exit(self, watcher: Process, callback: Callable[[], object]) -> None:
        """Call back in the watcher's process when this process exits, as a pidfd does."""
        if self.alive:
            self._watchers.append((watcher, callback))
        else:
            self.machine.world.loop.deliver(watcher, callback)

    def mark_ended(self) -> None:
        self.alive = False
        self.ended_s = self.machine.world.now_s
        watchers, self._watchers = self._watchers, []
        for watcher, callback in watchers:
            if not watcher.crashed:
                self.machine.world.loop.deliver(watcher, callback)


@dataclass
class SimAttemptDirectory:
    """Directory of one attempt."""

    runner: SimProcess | None = None
    """Runner that holds the directory's lock while it is alive."""
    session: SessionId | None = None
    outcome: Outcome | None = None
    closed: bool = False
    promise_requests: int = 0
    granted_promises: dict[NodeId, float] = field(default_factory=dict)


class SimFile:
    """File of promises. Unsynced data is lost when the power fails."""

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

    def discard_unsynced(self) -> None:
        self._cached = self._stored


@dataclass
class Disk:
    attempts: dict[AttemptId, SimAttemptDirectory] = field(default_factory=dict)
    promises: SimFile = field(default_factory=SimFile)
    peers: dict[NodeId, str] = field(default_factory=dict)
    """Content of the peers file."""


class SimMachine:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.disk = Disk()
        self.boots = 1
        self.paused = False
        self.resumed_s = float("-inf")
        self.random = random.Random(f"{world.seed}/{name}/machine")
        self.on_resume: list[Callable[[SimMachine], object]] = []
        self.watchdogs: dict[str, SimWatchdog] = {}
        """Watchdogs by the nonce of their attempt, including dead ones."""
        self._processes: list[SimProcess] = []
        self._stopped_by_pause: list[Process] = []
        self._spawned = 0

    @property
    def boot(self) -> str:
        return f"{self.name}-{self.boots}"

    @property
    def clock(self) -> SimClock:
        return self.world.clock(f"{self.name}/kernel")

    @property
    def kernel(self) -> Process:
        """Return the pseudo-process that runs kernel actions. It cannot be paused or killed by itself."""
        return self.world.process(f"{self.name}/kernel")

    # Processes

    def spawn(self, program: str, start: Callable[[SimProcess], Coroutine[Any, Any, object]]) -> SimProcess:
        """Start a process that ends when its coroutine does."""
        self._spawned += 1
        name = f"{self.name}/{program}.{self._spawned}"
        spawned = SimProcess(self, name, self.world.process(name))
        self._processes.append(spawned)

        async def run_to_end() -> None:
            await start(spawned)
            self.world.loop.schedule_at(self.world.now_s, self.kill, spawned)

        self.world.spawn(name, run_to_end)
        if self.paused:
            self._stop(spawned.process)
        return spawned

    def kill(self, process: SimProcess) -> None:
        """Kill a single process. It dies immediately."""
        if not process.alive:
            return
        self.world.record("dead", process.name)
        self.world.loop.crash(process.process)
        self._processes.remove(process)
        process.mark_ended()

    def find(self, name: str) -> SimProcess | None:
        return next((process for process in self._processes if process.name == name), None)

    def schedule_in_kernel(self, delay_s: float, action: Callable[..., object], *args: Any) -> None:
        """Run a kernel action after a delay, or when the paused machine resumes."""
        self.world.loop.schedule_at(self.world.now_s + delay_s, self.world.loop.enqueue_timer, self.kernel, action, *args)

    def kill_time_s(self) -> float:
        return self.random.uniform(0.002, KILL_S_MAX if self.random.random() < 0.5 else 0.1)

    # Whole machine

    def pause(self) -> None:
        if self.paused:
            return
        self.paused = True
        self.world.record("pause machine", self.name)
        _ = self.kernel
        for process in self.world.processes_of(self.name):
            if not process.stopped or not process.resources_stopped:
                self._stop(process)

    def _stop(self, process: Process) -> None:
        if process.stopped and not process.resources_stopped:
            self.world.loop.resume(process)  # end the hang first; the process runs normally after the pause
        self.world.loop.pause(process)
        self._stopped_by_pause.append(process)

    def resume(self) -> None:
        if not self.paused:
            return
        self.paused = False
        self.resumed_s = self.world.now_s
        self.world.record("resume machine", self.name)
        stopped, self._stopped_by_pause = self._stopped_by_pause, []
        for process in stopped:
            self.world.loop.resume(process)
        for callback in self.on_resume:
            callback(self)

    def lose_power(self) -> None:
        self.world.record("power lost", self.name)
        self.paused = False
        self._stopped_by_pause.clear()
        processes, self._processes = self._processes, []
        self.world.crash_machine(self.name)
        for process in processes:
            process.alive = False
            process.ended_s = self.world.now_s
        self.disk.promises.discard_unsynced()
        self.boots += 1
