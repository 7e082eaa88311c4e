"""Commands of a leader. Each command is one transaction that checks the znodes the decision depends on."""

from dataclasses import dataclass

from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.job import JobState


@dataclass(frozen=True, slots=True)
class Launch:
    """Command to assign the next attempt number and to order a node to run the attempt."""

    job: JobId
    node: NodeId
    state: JobState

    @property
    def reason(self) -> str:
        return self.state.reason


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """Command to order a node to end the last attempt and to certify its death. The state records that the leader waits."""

    job: JobId
    node: NodeId
    state: JobState

    @property
    def reason(self) -> str:
        return self.state.reason


@dataclass(frozen=True, slots=True)
class UpdateState:
    """Command to write a new state. If its phase is final, the same transaction deletes the job's name and its order."""

    job: JobId
    state: JobState
    rebuilt: bool = False
    """True if the old state could not be read and the new one is built from the lease."""

    @property
    def reason(self) -> str:
        return self.state.reason


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Command to quarantine a job with its original bytes. Nothing is deleted; its attempt number is never assigned again."""

    job: JobId
    reason: str
    state: JobState | None
    """None if the job has no state: a job that was never completely submitted does not get one."""


@dataclass(frozen=True, slots=True)
class WithdrawOrder:
    """Command to delete an order that matches no state. The order would start nothing, but it would stay forever."""

    job: JobId
    node: NodeId
    reason: str


Command = Launch | EndAttempt | UpdateState | Quarantine | WithdrawOrder
