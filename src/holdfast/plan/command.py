"""Commands of a leader. Each command is one transaction that checks the znodes the decision depends on."""

from dataclasses import dataclass

from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.job import JobState


@dataclass(frozen=True, slots=True)
class Launch:
    """Assign the next attempt number and order a node to run the attempt."""

    job: JobId
    node: NodeId
    state: JobState

    @property
    def reason(self) -> str:
        return self.state.reason


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """Order the node of the last attempt to end it and to certify its death. The state records that the leader waits."""

    job: JobId
    node: NodeId
    state: JobState

    @property
    def reason(self) -> str:
        return self.state.reason


@dataclass(frozen=True, slots=True)
class UpdateState:
    """Write a new state. If its phase is final, the same transaction deletes the job's name and its order."""

    job: JobId
    state: JobState
    rebuilt: bool = False
    """The old state could not be read; this one is built from the lease."""

    @property
    def reason(self) -> str:
        return self.state.reason


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Move the job to quarantine with its original bytes. Nothing is deleted; its attempt number is never assigned again."""

    job: JobId
    reason: str
    state: JobState | None
    """None if the job has no state: a job that was never completely submitted does not get one."""


@dataclass(frozen=True, slots=True)
class WithdrawOrder:
    """Delete an order that matches no state. It would start nothing, but it would stay forever."""

    job: JobId
    node: NodeId
    reason: str


Command = Launch | EndAttempt | UpdateState | Quarantine | WithdrawOrder
