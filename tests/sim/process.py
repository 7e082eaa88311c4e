"""Simulated process: its callbacks, whether it may run, and its clocks.

The process `n1/runner` runs on the machine `n1`. All processes of a machine share its clocks and its links to the ZooKeeper
servers. A name without a slash denotes a machine with a single process.
"""

import contextvars
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.sim.event_loop import SimLoop

WALL_AT_START_S = 1_800_000_000.0

Call = tuple[Callable[..., object], tuple[Any, ...]]


class ProcessResource(Protocol):
    """Resource with its own threads or sockets that is paused and ends with its process, such as a ZooKeeper client."""

    def process_paused(self) -> None: ...

    def process_resumed(self) -> None: ...

    def process_crashed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SimClock:
    """Clocks of one machine. Machines boot at different times, so boot times of different machines are not comparable."""

    loop: "SimLoop"
    booted_s: float
    skew_s: float

    def boottime(self) -> float:
        return self.booted_s + self.loop.now_s

    def wall(self) -> float:
        return WALL_AT_START_S + self.skew_s + self.loop.now_s


class Process:
    """Simulated process. Tasks and callbacks created in its context, directly or indirectly, belong to it."""

    __slots__ = (
        "clock",
        "context",
        "crashed",
        "in_runnable_list",
        "late_messages",
        "late_timers",
        "machine",
        "name",
        "queue",
        "resources",
        "resources_stopped",
        "stopped",
    )

    def __init__(self, name: str, clock: SimClock) -> None:
        self.name = name
        self.machine = name.partition("/")[0]
        self.clock = clock
        self.context = contextvars.Context()
        self.context.run(CURRENT_PROCESS.set, self)
        self.queue: deque[Any] = deque()
        self.late_messages: list[Any] = []
        self.late_timers: list[Any] = []
        self.resources: list[ProcessResource] = []
        self.in_runnable_list = False
        """True while the scheduler's list of runnable processes contains this process."""
        self.stopped = False
        """True if the process is paused, hung or crashed: its event loop runs nothing."""
        self.resources_stopped = False
        """True if the resources are stopped too (paused process), False if only the event loop is stopped (hung process)."""
        self.crashed = False

    def __repr__(self) -> str:
        return f"<process {self.name}>"


CURRENT_PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("simulated process")
