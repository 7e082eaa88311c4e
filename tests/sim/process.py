"""A simulated process: what runs in it, whether it may run, and what time it believes it is.

A process called `n1/runner` runs on the machine `n1`, and shares the machine's clocks and its links to the servers with every
other process there. A name without a slash is a machine with one process.
"""

import contextvars
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.sim.loop import SimLoop

WALL_AT_START_S = 1_800_000_000.0

Call = tuple[Callable[..., object], tuple[Any, ...]]


class Resident(Protocol):
    """Something with threads or sockets of its own that shares the fate of a process, such as a ZooKeeper client."""

    def process_paused(self) -> None: ...

    def process_resumed(self) -> None: ...

    def process_crashed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SimClock:
    """The clocks of one machine. Every machine booted at another moment, so boot times cannot be compared across them."""

    loop: "SimLoop"
    booted_s: float
    skew_s: float

    def boottime(self) -> float:
        return self.booted_s + self.loop.time()

    def wall(self) -> float:
        return WALL_AT_START_S + self.skew_s + self.loop.time()


class Process:
    """Everything started from its context belongs to it, however indirectly."""

    __slots__ = (
        "clock",
        "context",
        "crashed",
        "late_arrivals",
        "late_timers",
        "listed",
        "machine",
        "name",
        "queue",
        "residents",
        "stopped",
        "whole",
    )

    def __init__(self, name: str, clock: SimClock) -> None:
        self.name = name
        self.machine = name.partition("/")[0]
        self.clock = clock
        self.context = contextvars.Context()
        self.context.run(CURRENT.set, self)
        self.queue: deque[Any] = deque()
        self.late_arrivals: list[Any] = []
        self.late_timers: list[Any] = []
        self.residents: list[Resident] = []
        self.listed = False
        """Whether the scheduler knows that there is something to run."""
        self.stopped = False
        """Paused, hung or crashed: nothing of the event loop runs."""
        self.whole = False
        """Whether the residents are stopped too (a paused process), or only the event loop (a hung one)."""
        self.crashed = False

    def __repr__(self) -> str:
        return f"<process {self.name}>"


CURRENT: contextvars.ContextVar[Process] = contextvars.ContextVar("simulated process")
