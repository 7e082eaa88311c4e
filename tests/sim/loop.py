"""An asyncio event loop on virtual time, whose every choice comes from a seed.

Each callback belongs to a simulated process, which a context variable remembers. A process runs its callbacks first in,
first out, as asyncio promises; *which* process runs next is drawn at random. Callbacks take no time: the clock moves only
when every process waits.

What is not reproducible, and must not be used in simulated code: `asyncio.TaskGroup`, `asyncio.wait` and
`asyncio.as_completed`, which iterate sets ordered by address; threads; the real clock. `gather`, `wait_for`, `timeout`,
`Event`, `Queue` and `Lock` are fine.

There are two kinds of event on the agenda. A *timer* belongs to a process and waits while that process is stopped. A
*world event* (a packet on the wire, a server's work) belongs to nobody and happens at its time, whatever else is stopped.
"""

import asyncio
import contextlib
import contextvars
import heapq
import random
import warnings
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.sim.process import CURRENT, Call, Process, SimClock

STEPS_MAX = 2_000_000
CLOSE_TRIES_MAX = 50

T = TypeVar("T")


class TooManySteps(AssertionError):
    """Something runs without ever waiting, or the scenario is far too long."""


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self, seed: int, *, steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        self.set_debug(False)
        self.set_exception_handler(lambda _loop, context: self.failures.append(context))
        self.seed = seed
        self.steps = 0
        self.failures: list[dict[str, Any]] = []
        """What asyncio would only have logged, such as the exception of a task that nobody awaited."""
        self._steps_max = steps_max
        self._random = random.Random(f"{seed}/schedule")
        self._now_s = 0.0
        self._agenda: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._agenda_count = 0
        self._cancelled_timers = 0
        self._ring_timer = self._ring
        self._halted = False
        self._runnable: list[Process] = []
        self._boots = 0
        self._buried: list[object] = []
        self._outside = Process("outside", self.boot())

    def time(self) -> float:
        return self._now_s

    # Processes

    def boot(self) -> SimClock:
        """The clocks of a machine that was started at some time before now."""
        self._boots += 1
        booted_s = 1000.0 + 137.0 * self._boots + self._random.random()
        return SimClock(self, booted_s, skew_s=self._random.uniform(-0.5, 0.5))

    def pause(self, process: Process, *, whole: bool = True) -> None:
        """Stop it as SIGSTOP does. With whole=False only its event loop hangs, and client threads go on."""
        if process.stopped:
            return
        if whole:
            for resident in tuple(process.residents):
                resident.process_paused()
        process.stopped = True
        process.whole = whole
        if process.listed:
            self._runnable.remove(process)
            process.listed = False

    def resume(self, process: Process) -> None:
        """Let it run on. What arrived and what fell due meanwhile runs late, and either may come first."""
        if not process.stopped or process.crashed:
            return
        if process.whole:
            for resident in tuple(process.residents):
                resident.process_resumed()
        process.stopped = False
        late = [process.late_arrivals, process.late_timers]
        if self._random.random() < 0.5:
            late.reverse()
        for items in late:
            process.queue.extend(items)
            items.clear()
        if process.queue:
            self._list(process)

    def crash(self, process: Process) -> None:
        """End it as SIGKILL does: nothing of it ever runs again, not even a `finally`."""
        if process.crashed:
            return
        for resident in tuple(process.residents):
            resident.process_crashed()
        if process.listed:
            self._runnable.remove(process)
            process.listed = False
        process.stopped = process.crashed = True
        # A suspended coroutine that is collected runs its `finally` blocks. So nothing is collected before the verdict;
        # keeping a few tasks of other processes as well does no harm.
        self._buried.append(asyncio.all_tasks(self))
        self._buried.append((list(process.queue), process.late_arrivals, process.late_timers))
        process.queue.clear()
        process.late_arrivals, process.late_timers = [], []

    # What happens when

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle = events.Handle(callback, args, self, context)
        process = context.get(CURRENT, self._outside)
        if process.crashed or self.is_closed():
            self._buried.append(handle)
            return handle
        process.queue.append(handle)
        if not process.listed and not process.stopped:
            process.listed = True
            self._runnable.append(process)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        handle = events.TimerHandle(when, callback, args, self, context)
        self.at(when, self._ring_timer, handle)
        return handle

    def at(self, when_s: float, callback: Callable[..., object], *args: Any) -> None:
        """A world event. It cannot be cancelled: let it find out that it is no longer wanted."""
        self._agenda_count += 1
        heapq.heappush(self._agenda, (when_s, self._agenda_count, callback, args))

    def arrive(self, process: Process, callback: Callable[..., object], *args: Any) -> None:
        """Something from outside (a packet, another thread's message) is handed to the process, now."""
        self._enqueue(process, process.late_arrivals, (callback, args))

    def timer_due(self, process: Process, callback: Callable[..., object], *args: Any) -> None:
        """A world event may be `timer_due` itself, which makes it a timer of the process."""
        self._enqueue(process, process.late_timers, (callback, args))

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        raise RuntimeError("there are no threads in the simulation")

    def _enqueue(self, process: Process, late: list[Any], item: "events.Handle | Call") -> None:
        if process.stopped:
            (self._buried if process.crashed else late).append(item)
            return
        process.queue.append(item)
        if not process.listed:
            self._list(process)

    def _list(self, process: Process) -> None:
        process.listed = True
        self._runnable.append(process)

    def _ring(self, handle: events.TimerHandle) -> None:
        if handle._cancelled:
            self._cancelled_timers -= 1
            return
        process = handle._context.get(CURRENT, self._outside)  # type: ignore[attr-defined]
        self._enqueue(process, process.late_timers, handle)

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > 100 and self._cancelled_timers * 2 > len(self._agenda):
            ring = self._ring_timer
            self._agenda[:] = [e for e in self._agenda if e[2] is not ring or not e[3][0]._cancelled]
            heapq.heapify(self._agenda)
            self._cancelled_timers = 0

    # Running

    def run_until(self, until_s: float, done: Callable[[], bool] | None = None) -> None:
        """Run up to a time, or until `done` says so, which is asked after every step."""
        if events._get_running_loop() is not None:
            raise RuntimeError("the simulation is already running: only code outside of it can let time pass")
        events._set_running_loop(self)
        self._halted = False
        try:
            while not self._halted and (done is None or not done()):
                if not self._step(until_s):
                    self._now_s = max(self._now_s, until_s)
                    break
        finally:
            events._set_running_loop(None)

    def halt(self) -> None:
        """Stop `run_until` after the current step."""
        self._halted = True

    def run_forever(self) -> None:
        raise RuntimeError("simulated time has no end: use run_until")

    def create_task_in(self, process: Process, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> "asyncio.Task[T]":
        return self.create_task(coroutine, name=name, context=process.context.copy())

    def _step(self, until_s: float) -> bool:
        """Run one callback, or move to the next moment. False when nothing is left to do until then."""
        self.steps += 1
        if self.steps > self._steps_max:
            raise TooManySteps(f"the simulation took more than {self._steps_max} steps, at {self._now_s:.3f} s")
        runnable = self._runnable
        if runnable:
            count = len(runnable)
            process = runnable[0] if count == 1 else runnable[int(self._random.random() * count)]
            item = process.queue.popleft()
            if not process.queue:
                runnable.remove(process)
                process.listed = False
            if type(item) is tuple:
                process.context.run(item[0], *item[1])
            elif not item._cancelled:
                item._context.run(item._callback, *item._args)
            return True
        agenda = self._agenda
        if not agenda or agenda[0][0] > until_s:
            return False
        when_s, _, callback, args = heapq.heappop(agenda)
        self._now_s = max(self._now_s, when_s)
        callback(*args)
        return True

    def close(self) -> None:
        """The verdict is in. Only now may suspended coroutines be unwound, and what they still try goes nowhere."""
        if self.is_closed():
            return
        super().close()
        tasks = asyncio.all_tasks(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for task in tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _unwind(task.get_coro())
        self._agenda.clear()
        self._buried.clear()

    def random_state(self) -> str:
        """Changes with every choice made so far, so that two runs that agree on it took the same path."""
        return repr(self._random.getstate())


def _unwind(coroutine: Any) -> None:
    for _ in range(CLOSE_TRIES_MAX):
        # Whatever a `finally` does after the verdict is of no interest; one that awaits must be closed again.
        with contextlib.suppress(BaseException):
            coroutine.close()
            return
