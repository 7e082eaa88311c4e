"""Interfaces between a runner and its environment. `execution.driver` and `granted_promises` implement them."""

from collections.abc import Iterable
from typing import Protocol

from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Outcome, Progress, Report, SparkApplication, Spec
from holdfast.zk.session.client import SessionId


class DriverExecution(Protocol):
    """Execution of one attempt's driver: its processes and its files."""

    async def run_driver(self, spec: Spec, previous_report: Report | None, trust: CheckpointTrust | None = None) -> Outcome:
        """Start the driver and return its outcome after every process of the attempt is gone.

        `trust` has the damage of the checkpoint that a user has accepted.
        """

    def set_deadline(self, deadline: float) -> None:
        """Replace the deadline (seconds of CLOCK_BOOTTIME) at which the processes are killed, even if this process hangs."""

    def request_stop(self) -> None:
        """Ask the driver to stop at the next batch boundary."""

    def send_sigterm(self) -> None:
        """Send SIGTERM to a driver that has not stopped."""

    def kill(self, cause: Outcome) -> None:
        """Kill all processes. `run_driver` then returns `cause`, unless the driver had ended by itself before."""

    @property
    def driver_pid(self) -> int | None: ...

    @property
    def isolation(self) -> str:
        """Isolation level of the driver; empty before its start."""

    @property
    def claimed_checkpoint(self) -> str:
        """Root of the checkpoints, once this attempt has claimed it; empty before."""

    @property
    def is_ready(self) -> bool:
        """True once the driver has Spark or a query, or runs without Spark. Remains true."""

    @property
    def application(self) -> SparkApplication | None: ...

    @property
    def note(self) -> str:
        """Sentence for operators about the start or a current problem; empty if there is nothing to report."""

    @property
    def batch_s(self) -> float:
        """Seconds that a batch lasts because of its trigger, for example in real-time mode; 0 if it ends with its work."""

    @property
    def has_queries(self) -> bool:
        """True if the driver has started a streaming query."""

    def progress(self) -> Progress | None: ...

    def save_session(self, session: SessionId) -> None:
        """Save the session's id and password, with which the node closes the session if this runner dies."""

    async def save_outcome(self, outcome: Outcome) -> None:
        """Save the outcome in the attempt's directory and in the checkpoint."""


class FailsafePeers(Protocol):
    """Failsafe promises for this attempt, which the node's agent requests from all nodes."""

    def request_promises(self) -> None:
        """Ask the agent for promises. It stops requesting them soon after the last call."""

    def promised_until(self, nodes: Iterable[NodeId]) -> float:
        """Return the time (CLOCK_BOOTTIME) before which none of the nodes starts a later attempt; minus infinity if unknown."""
