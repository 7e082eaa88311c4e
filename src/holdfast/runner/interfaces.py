"""What a runner needs of the world around it. The real things are in `driver` and `peers`; the simulator has its own."""

from collections.abc import Mapping
from typing import Protocol

from holdfast.model.identifiers import NodeId
from holdfast.model.job import Outcome, Progress, Report, Spec
from holdfast.runner.lease import Run
from holdfast.zk.session.client import SessionId


class Work(Protocol):
    """The processes of one attempt, and what it leaves on disk."""

    async def perform(self, spec: Spec, before: Report | None) -> Outcome:
        """Prepare, start the driver, wait for its end. Returns when every process of the attempt is surely gone."""

    def renew(self, deadline: float) -> None:
        """The processes may live until then, on CLOCK_BOOTTIME, and not longer, even if this process hangs."""

    def ask_to_stop(self) -> None:
        """Gracefully, at the next batch boundary."""

    def press_to_stop(self) -> None:
        """It did not: by a signal that the program can still catch."""

    def end(self, cause: Outcome) -> None:
        """Kill everything. `perform` then returns this cause, unless the driver had ended by itself before."""

    @property
    def driver_pid(self) -> int | None: ...

    @property
    def note(self) -> str:
        """What people have to know about how it began, or what it waits for; empty if all is as always."""

    def progress(self) -> Progress | None: ...

    def keep_session(self, session: SessionId) -> None:
        """Write down what it takes to close our session, should we die."""

    async def leave(self, outcome: Outcome) -> None:
        """Write the outcome down where it is found again: beside the attempt, and in the checkpoint."""


class Peers(Protocol):
    async def promise(self, nodes: Mapping[NodeId, str], run: Run, period_s: float) -> bool:
        """Whether every one of these nodes, by address, has promised not to start a later attempt for this long."""
