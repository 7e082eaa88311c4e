"""A whole simulated world from one seed: time, processes, ZooKeeper, and a trace of what happened.

    with World(seed=7) as world:
        world.spawn("a", lambda: agent(world.connect("a"), world.clock("a")))
        world.run_for(10)
        world.crash("a")
        world.run_until(lambda: world.zk.tree.get("/leader") is None, within_s=15)

Whatever goes wrong inside is raised with the seed and the trace's digest. The same seed, the same code and the same
version of Python give the same run.
"""

import asyncio
import platform
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.zk.session.client import SessionId
from tests.sim.loop import STEPS_MAX, SimLoop
from tests.sim.process import WALL_AT_START_S, Process, SimClock
from tests.sim.trace import Trace
from tests.sim.zk.client import SimConnect
from tests.sim.zk.ensemble import Ensemble

T = TypeVar("T")


class Stuck(AssertionError):
    """The time is up, and what was waited for has not happened."""


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
        """The living process of that name. After a crash, a new one."""
        process = self._processes.get(name)
        if process is None or process.crashed:
            machine = name.partition("/")[0]
            clock = self._clocks.get(machine) or self._clocks.setdefault(machine, self.loop.boot())
            process = self._processes[name] = Process(name, clock)
        return process

    def processes_of(self, machine: str) -> list[Process]:
        """Those that live there."""
        return [process for process in self._processes.values() if process.machine == machine and not process.crashed]

    def clock(self, name: str) -> SimClock:
        return self.process(name).clock

    def connect(
        self,
        name: str,
        *,
        timeout_s: float = 10.0,
        patience_s: float | None = None,
        resume: SessionId | None = None,
    ) -> SimConnect:
        return SimConnect(self.zk, self.process(name), timeout_s, patience_s, resume)

    def spawn(self, name: str, start: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Task[T]":
        """Run a coroutine in that process. If it raises, the world stops and raises it."""
        process = self.process(name)
        self.record("spawn", name)
        task = self.loop.create_task_in(process, process.context.copy().run(start))
        task.add_done_callback(self._task_done, context=process.context.copy())
        self._tasks.append(task)
        return task

    def pause(self, name: str) -> None:
        """Stop it as SIGSTOP does, client threads and all."""
        self.record("pause", name)
        self.loop.pause(self.process(name))

    def hang(self, name: str) -> None:
        """Only its event loop stands still; its ZooKeeper client's threads go on, and keep the session alive."""
        self.record("hang", name)
        self.loop.pause(self.process(name), whole=False)

    def resume(self, name: str) -> None:
        self.record("resume", name)
        self.loop.resume(self.process(name))

    def crash(self, name: str) -> None:
        """End it as SIGKILL does. Its session lives on."""
        self.record("crash", name)
        self.loop.crash(self.process(name))

    def crash_machine(self, machine: str) -> None:
        """The power fails: every process there ends, and what runs there later finds that it has booted anew."""
        self.record("crash machine", machine)
        for process in self._processes.values():
            if process.machine == machine:
                self.loop.crash(process)
        self._clocks.pop(machine, None)

    # Time

    @property
    def now_s(self) -> float:
        return self.loop.time()

    def wall_s(self) -> float:
        """The wall clock of somebody whose clock is right."""
        return WALL_AT_START_S + self.now_s

    def at(self, when_s: float, action: Callable[..., object], *args: Any) -> None:
        """Do something at that time, such as a fault."""
        self.loop.at(when_s, action, *args)

    def run_for(self, seconds: float) -> None:
        self._run(self.now_s + seconds, None)

    def run_until(self, condition: Callable[[], bool], within_s: float, what: str = "the condition") -> None:
        """Until it holds. It is asked after every step, so it should be cheap."""
        until_s = self.now_s + within_s
        self._run(until_s, condition)
        if not condition():
            raise self._explained(Stuck(f"{what} did not hold within {within_s} simulated seconds"))

    def run(self, coroutine: Coroutine[Any, Any, T], *, process: str = "test", within_s: float = 3600.0) -> T:
        """Run one coroutine to its end, with everything else going on around it."""
        task = self.loop.create_task_in(self.process(process), coroutine)
        self._run(self.now_s + within_s, task.done)
        if not task.done():
            self._tasks.append(task)  # or the garbage collector would complain about it, at a moment of its own choice
            raise self._explained(Stuck(f"{task!r} was not done within {within_s} simulated seconds"))
        return task.result()

    def _run(self, until_s: float, done: Callable[[], bool] | None) -> None:
        try:
            self.loop.run_until(until_s, done)
        except Exception as error:
            self._explained(error)
            raise
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise self._explained(failure)

    # The verdict

    def digest(self) -> str:
        """Equal for two runs that took the same path."""
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
            self._explained(error)
        elif failures:
            # asyncio would only have logged it, such as the exception of a task that nobody awaited.
            raise self._explained(AssertionError(str(failures[0]))) from failures[0].get("exception")

    def _task_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.remove(task)
        if not task.cancelled() and task.exception() is not None and self._failure is None:
            self._failure = task.exception()
            self.loop.halt()

    def _explained(self, error: BaseException) -> BaseException:
        note = f"seed {self.seed}, trace {self.digest()}, at {self.now_s:.6f} s, Python {platform.python_version()}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        return error


def replay(seed: int, scenario: Callable[[World], object], **options: Any) -> str:
    """Run a scenario in a fresh world and return the digest of what happened in it."""
    with World(seed, **options) as world:
        scenario(world)
        return world.digest()
