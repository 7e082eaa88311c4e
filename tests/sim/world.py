"""Simulated world created from one seed: time, processes, ZooKeeper and a trace.

    with World(seed=7) as world:
        world.spawn("a", lambda: agent(world.connect("a"), world.clock("a")))
        world.run_for(10)
        world.crash("a")
        world.run_until(lambda: world.zk.tree.get("/leader") is None, within_s=15)

Every error of a run is raised with a note that names the seed and the digest of the trace. The same seed, code and Python
version give the same run.
"""

import asyncio
import platform
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.zk.session.client import SessionId
from tests.sim.event_loop import STEPS_MAX, SimLoop
from tests.sim.process import WALL_AT_START_S, Process, SimClock
from tests.sim.trace import Trace
from tests.sim.zk.client import SimConnect
from tests.sim.zk.ensemble import Ensemble

T = TypeVar("T")


class SimulatedTimeout(AssertionError):
    """A condition did not hold within the allowed simulated time."""


class World:
    def __init__(
        self, seed: int, *, servers: int = 3, tick_s: float = 1.0, sync_limit: int = 5, steps_max: int = STEPS_MAX
    ) -> None:
        self.seed = seed
        self.loop = SimLoop(seed, steps_max=steps_max)
        self.trace = Trace(self.loop.time)
        self.record = self.trace.record
        self.zk = Ensemble(self.loop, servers=servers, tick_s=tick_s, sync_limit=sync_limit, record=self.record)
        self._processes: dict[str, Process] = {}
        self._clocks: dict[str, SimClock] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._failure: BaseException | None = None

    # Processes

    def process(self, name: str) -> Process:
        """Return the running process of that name; create one if there is none or it has crashed."""
        process = self._processes.get(name)
        if process is None or process.crashed:
            machine = name.partition("/")[0]
            clock = self._clocks.get(machine) or self._clocks.setdefault(machine, self.loop.boot_machine())
            process = self._processes[name] = Process(name, clock)
        return process

    def processes_of(self, machine: str) -> list[Process]:
        """Return the processes of the machine that have not crashed."""
        return [process for process in self._processes.values() if process.machine == machine and not process.crashed]

    def clock(self, name: str) -> SimClock:
        return self.process(name).clock

    def connect(
        self,
        name: str,
        *,
        timeout_s: float = 10.0,
        reply_timeout_s: float | None = None,
        resume: SessionId | None = None,
    ) -> SimConnect:
        return SimConnect(self.zk, self.process(name), timeout_s, reply_timeout_s, resume)

    def spawn(self, name: str, start: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Task[T]":
        """Run a coroutine in a process. If it raises, the run stops and raises the error."""
        process = self.process(name)
        self.record("spawn", name)
        task = self.loop.create_task_in(process, process.context.copy().run(start))
        task.add_done_callback(self._on_task_done, context=process.context.copy())
        self._tasks.append(task)
        return task

    def pause(self, name: str) -> None:
        """Stop a process like SIGSTOP, including the threads of its ZooKeeper client."""
        self.record("pause", name)
        self.loop.pause(self.process(name))

    def hang(self, name: str) -> None:
        """Stop only the event loop of a process. Its ZooKeeper client's threads continue and keep the session alive."""
        self.record("hang", name)
        self.loop.pause(self.process(name), stop_resources=False)

    def resume(self, name: str) -> None:
        self.record("resume", name)
        self.loop.resume(self.process(name))

    def crash(self, name: str) -> None:
        """Kill a process like SIGKILL. Its ZooKeeper session remains until it expires."""
        self.record("crash", name)
        self.loop.crash(self.process(name))

    def crash_machine(self, machine: str) -> None:
        """Cut the power of a machine: all its processes end. Processes started there later see a new boot."""
        self.record("crash machine", machine)
        for process in self._processes.values():
            if process.machine == machine:
                self.loop.crash(process)
        self._clocks.pop(machine, None)

    # Time

    @property
    def now_s(self) -> float:
        return self.loop.now_s

    def wall_s(self) -> float:
        """Return the true wall-clock time, in seconds since the Unix epoch."""
        return WALL_AT_START_S + self.now_s

    def schedule_at(self, when_s: float, action: Callable[..., object], *args: Any) -> None:
        """Run an action at a simulated time, for example a fault."""
        self.loop.schedule_at(when_s, action, *args)

    def run_for(self, seconds: float) -> None:
        self._run(self.now_s + seconds, None)

    def run_until(self, condition: Callable[[], bool], within_s: float, what: str = "the condition") -> None:
        """Run until the condition, which is evaluated after every step, holds. Raise SimulatedTimeout if it does not."""
        until_s = self.now_s + within_s
        self._run(until_s, condition)
        if not condition():
            raise self._annotate(SimulatedTimeout(f"{what} did not hold within {within_s} simulated seconds"))

    def run(self, coroutine: Coroutine[Any, Any, T], *, process: str = "test", within_s: float = 3600.0) -> T:
        """Run one coroutine to its end while the rest of the world continues, and return its result."""
        task = self.loop.create_task_in(self.process(process), coroutine)
        self._run(self.now_s + within_s, task.done)
        if not task.done():
            self._tasks.append(task)  # prevents a warning about a destroyed pending task at an arbitrary time
            raise self._annotate(SimulatedTimeout(f"{task!r} was not done within {within_s} simulated seconds"))
        return task.result()

    def _run(self, until_s: float, done: Callable[[], bool] | None) -> None:
        try:
            self.loop.run_until(until_s, done)
        except Exception as error:
            self._annotate(error)
            raise
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise self._annotate(failure)

    def fail(self, failure: BaseException) -> None:
        """End the schedule with this failure, unless it has failed already."""
        if self._failure is None:
            self._failure = failure
            self.loop.halt()

    # Result

    def digest(self) -> str:
        """Return a digest that is equal for two runs with the same trace and the same random choices."""
        return self.trace.digest(
            self.loop.steps, self.now_s, self.loop.random_state(), self.zk.random.getstate(), self.zk.tree.nodes
        )

    def close(self) -> None:
        self.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        failures = self.loop.failures[:1]
        self.close()
        if error is not None:
            self._annotate(error)
        elif failures:
            # asyncio only logs such errors, for example the exception of a task that was never awaited.
            raise self._annotate(AssertionError(str(failures[0]))) from failures[0].get("exception")

    def _on_task_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.remove(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.fail(failure)

    def _annotate(self, error: BaseException) -> BaseException:
        note = f"seed {self.seed}, trace {self.digest()}, at {self.now_s:.6f} s, Python {platform.python_version()}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        return error


def replay(seed: int, scenario: Callable[[World], object], **options: Any) -> str:
    """Run a scenario in a new world and return the world's digest."""
    with World(seed, **options) as world:
        scenario(world)
        return world.digest()
