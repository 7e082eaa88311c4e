"""Asyncio event loop on virtual time. One seed determines every scheduling choice.

Each callback belongs to one simulated process, which a context variable identifies. A process runs its callbacks in FIFO order,
as asyncio promises; the *process* that runs next is drawn at random. Callbacks take no time: the clock moves only when every
process waits.

Simulated code must not use features that are not reproducible: `asyncio.TaskGroup`, `asyncio.wait` and
`asyncio.as_completed` (they iterate sets ordered by address), threads, and the real clock. `gather`, `wait_for`, `timeout`,
`Event`, `Queue` and `Lock` are safe.

The event heap holds two kinds of events. A *timer* belongs to a process and waits while that process is stopped. A *world
event* (a network packet, work inside a server) belongs to no process and always happens at its time.
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

from tests.sim.process import CURRENT_PROCESS, Call, Process, SimClock

STEPS_MAX = 2_000_000
CLOSE_TRIES_MAX = 50

T = TypeVar("T")


class TooManySteps(AssertionError):
    """A process runs without ever waiting, or the scenario is far too long."""


class _Handle(events.Handle):
    """Handle of a callback. Asyncio's own constructor asks the loop for its debug mode, which is never on."""

    __slots__ = ()

    def __init__(self, callback: Callable[..., object], args: Any, loop: "SimLoop", context: contextvars.Context) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _TimerHandle(events.TimerHandle):
    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., object], args: Any, loop: "SimLoop", context: contextvars.Context
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]  # as asyncio does, to release them


class SimLoop(asyncio.BaseEventLoop):
    get_debug = staticmethod(bool)
    """Function that returns False. Each future and task calls it, so it must be cheap."""

    def __init__(self, seed: int, *, steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        self.set_debug(False)
        self.set_exception_handler(lambda _loop, context: self.failures.append(context))
        self.seed = seed
        self.steps = 0
        self.failures: list[dict[str, Any]] = []
        """Contexts of errors that asyncio would only log, such as the exception of a task that was never awaited."""
        self._steps_max = steps_max
        self._random = random.Random(f"{seed}/schedule")
        self.now_s = 0.0
        self._event_heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._events_scheduled = 0
        self._cancelled_timers = 0
        self._fire_timer_callback = self._fire_timer
        self._halted = False
        self._runnable: list[Process] = []
        self._boots = 0
        self._retained: list[object] = []
        self._outside_process = Process("outside", self.boot_machine())

    def time(self) -> float:
        return self.now_s

    # Processes

    def boot_machine(self) -> SimClock:
        """Return the clocks of a new machine, which booted at a random time before now."""
        self._boots += 1
        booted_s = 1000.0 + 137.0 * self._boots + self._random.random()
        return SimClock(self, booted_s, skew_s=self._random.uniform(-0.5, 0.5))

    def pause(self, process: Process, *, stop_resources: bool = True) -> None:
        """Stop a process like SIGSTOP. With stop_resources=False only its event loop hangs and client threads continue."""
        if process.stopped:
            return
        if stop_resources:
            for resource in tuple(process.resources):
                resource.process_paused()
        process.stopped = True
        process.resources_stopped = stop_resources
        if process.in_runnable_list:
            self._runnable.remove(process)
            process.in_runnable_list = False

    def resume(self, process: Process) -> None:
        """Continue a stopped process. Late messages and late timers run now; which of the two comes first is random."""
        if not process.stopped or process.crashed:
            return
        if process.resources_stopped:
            for resource in tuple(process.resources):
                resource.process_resumed()
        process.stopped = False
        late = [process.late_messages, process.late_timers]
        if self._random.random() < 0.5:
            late.reverse()
        for items in late:
            process.queue.extend(items)
            items.clear()
        if process.queue:
            self._mark_runnable(process)

    def crash(self, process: Process) -> None:
        """Kill a process like SIGKILL: none of its code runs again, not even a `finally` block."""
        if process.crashed:
            return
        for resource in tuple(process.resources):
            resource.process_crashed()
        if process.in_runnable_list:
            self._runnable.remove(process)
            process.in_runnable_list = False
        process.stopped = process.crashed = True
        # A suspended coroutine runs its `finally` blocks when it is garbage-collected. So keep every task until `close`;
        # keeping tasks of other processes too is harmless.
        self._retained.append(asyncio.all_tasks(self))
        self._retained.append((list(process.queue), process.late_messages, process.late_timers))
        process.queue.clear()
        process.late_messages, process.late_timers = [], []

    # Scheduling

    def call_soon(  # type: ignore[override]  # asyncio types *args with a TypeVarTuple
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle = _Handle(callback, args, self, context)
        process = context.get(CURRENT_PROCESS, self._outside_process)
        if process.crashed or self._closed:  # type: ignore[attr-defined]  # private attribute of the base class
            self._retained.append(handle)
            return handle
        process.queue.append(handle)
        if not process.in_runnable_list and not process.stopped:
            process.in_runnable_list = True
            self._runnable.append(process)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # asyncio types *args with a TypeVarTuple

    def call_at(  # type: ignore[override]  # asyncio types *args with a TypeVarTuple
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        handle = _TimerHandle(when, callback, args, self, contextvars.copy_context() if context is None else context)
        self._events_scheduled += 1
        heapq.heappush(self._event_heap, (when, self._events_scheduled, self._fire_timer_callback, (handle,)))
        return handle

    def call_later(  # type: ignore[override]  # asyncio types *args with a TypeVarTuple
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def schedule_at(self, when_s: float, callback: Callable[..., object], *args: Any) -> None:
        """Schedule a world event. It cannot be cancelled; the callback must detect that it is obsolete."""
        self._events_scheduled += 1
        heapq.heappush(self._event_heap, (when_s, self._events_scheduled, callback, args))

    def deliver(self, process: Process, callback: Callable[..., object], *args: Any) -> None:
        """Deliver input from outside (a packet, a message of another thread) to a process, now."""
        if process.stopped:
            (self._retained if process.crashed else process.late_messages).append((callback, args))
            return
        process.queue.append((callback, args))
        if not process.in_runnable_list:
            process.in_runnable_list = True
            self._runnable.append(process)

    def enqueue_timer(self, process: Process, callback: Callable[..., object], *args: Any) -> None:
        """Queue a due timer of the process. Scheduling this function as a world event creates a timer of that process."""
        self._enqueue(process, process.late_timers, (callback, args))

    def run_in_executor(  # type: ignore[override]  # asyncio types *args with a TypeVarTuple
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        raise RuntimeError("there are no threads in the simulation")

    def _enqueue(self, process: Process, late: list[Any], item: "events.Handle | Call") -> None:
        if process.stopped:
            (self._retained if process.crashed else late).append(item)
            return
        process.queue.append(item)
        if not process.in_runnable_list:
            self._mark_runnable(process)

    def _mark_runnable(self, process: Process) -> None:
        process.in_runnable_list = True
        self._runnable.append(process)

    def _fire_timer(self, handle: events.TimerHandle) -> None:
        if handle._cancelled:
            self._cancelled_timers -= 1
            return
        process = handle._context.get(CURRENT_PROCESS, self._outside_process)  # type: ignore[attr-defined]  # private attribute of asyncio
        self._enqueue(process, process.late_timers, handle)

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > 100 and self._cancelled_timers * 2 > len(self._event_heap):
            fire = self._fire_timer_callback
            self._event_heap[:] = [e for e in self._event_heap if e[2] is not fire or not e[3][0]._cancelled]
            heapq.heapify(self._event_heap)
            self._cancelled_timers = 0

    # Running

    def run_until(self, until_s: float, done: Callable[[], bool] | None = None) -> None:
        """Run until a time, or until `done` returns True. `done` is called after every step."""
        if events._get_running_loop() is not None:
            raise RuntimeError("the simulation is already running: only code outside of it can let time pass")
        events._set_running_loop(self)
        self._halted = False
        try:
            self._run_steps(until_s, done)
        finally:
            events._set_running_loop(None)

    def _run_steps(self, until_s: float, done: Callable[[], bool] | None) -> None:
        """Run callbacks, and advance to the next event when no process can run. One function: calls would take a third more."""
        runnable, event_heap, draw = self._runnable, self._event_heap, self._random.random
        steps, steps_max = self.steps, self._steps_max
        try:
            while not self._halted and (done is None or not done()):
                steps += 1
                if steps > steps_max:
                    raise TooManySteps(f"the simulation took more than {steps_max} steps, at {self.now_s:.3f} s")
                if runnable:
                    count = len(runnable)
                    index = 0 if count == 1 else int(draw() * count)
                    process = runnable[index]
                    queue = process.queue
                    item = queue.popleft()
                    if not queue:
                        del runnable[index]
                        process.in_runnable_list = False
                    if type(item) is tuple:
                        process.context.run(item[0], *item[1])
                    elif not item._cancelled:
                        item._context.run(item._callback, *item._args)
                elif event_heap and event_heap[0][0] <= until_s:
                    when_s, _, callback, args = heapq.heappop(event_heap)
                    if when_s > self.now_s:  # noqa: PLR1730 -- max() takes three times as long
                        self.now_s = when_s
                    callback(*args)
                else:
                    self.now_s = max(self.now_s, until_s)
                    break
        finally:
            self.steps = steps

    def halt(self) -> None:
        """Stop `run_until` after the current step."""
        self._halted = True

    def run_forever(self) -> None:
        raise RuntimeError("simulated time has no end: use run_until")

    def create_task_in(self, process: Process, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> "asyncio.Task[T]":
        return self.create_task(coroutine, name=name, context=process.context.copy())

    def close(self) -> None:
        """Close the loop and unwind suspended coroutines. The run is over, so their remaining actions have no effect."""
        if self.is_closed():
            return
        super().close()
        tasks = asyncio.all_tasks(self)
        # A `finally` block may ask for the running loop. Without one, asyncio would create a real loop that nobody closes.
        running = events._get_running_loop()
        events._set_running_loop(self)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for task in tasks:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]  # private attribute of asyncio
                    _unwind(task.get_coro())
        finally:
            events._set_running_loop(running)
        self._event_heap.clear()
        self._retained.clear()

    def random_state(self) -> str:
        """Return the state of the random generator. Two runs with the same state have made the same choices."""
        return repr(self._random.getstate())


def _unwind(coroutine: Any) -> None:
    for _ in range(CLOSE_TRIES_MAX):
        # Errors of `finally` blocks are irrelevant after the run. A block that awaits must be closed again.
        with contextlib.suppress(BaseException):
            coroutine.close()
            return
