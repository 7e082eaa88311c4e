"""What a leader may do. Each command is one transaction, which checks what it was decided from."""

from dataclasses import dataclass

from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.job import State


@dataclass(frozen=True, slots=True)
class Launch:
    """Take the next attempt number and order a node to run it."""

    job: JobId
    node: NodeId
    state: State

    @property
    def reason(self) -> str:
        return self.state.reason


@dataclass(frozen=True, slots=True)
class Settle:
    """Write down how the job stands now. If that is final, its name and its order go in the same transaction."""

    job: JobId
    state: State
    rebuilt: bool = False
    """The old state could not be read: this one is made from the lease."""

    @property
    def reason(self) -> str:
        return self.state.reason


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Set the job aside, with its original bytes. Nothing is deleted, and its attempt number stays used."""

    job: JobId
    reason: str
    state: State | None
    """None if there was none: nothing is made up about a job that was never submitted as a whole."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Remove an order that matches no state. It would start nothing, but it would be there for ever."""

    job: JobId
    node: NodeId
    reason: str


Command = Launch | Settle | Quarantine | Withdraw
