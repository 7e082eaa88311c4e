"""State changes of one job, stamped with the time and the epoch of the current pass."""

from dataclasses import dataclass

from holdfast.model.failure_history import FailureHistory
from holdfast.model.identifiers import Attempt, Epoch
from holdfast.model.job import JobState, Lease
from holdfast.model.phase import Phase
from holdfast.model.schedule.runs import RunHistory
from holdfast.plan.command import UpdateState
from holdfast.plan.snapshot import JobView, Now

CANCELLED_REASON = "a user cancelled the job"
STOPPED_REASON = "a user stopped the job; 'holdfast resume' continues it, 'holdfast cancel' ends it"


@dataclass(frozen=True, slots=True)
class StateChanger:
    """Builder of `UpdateState` commands for one job."""

    job: JobView
    epoch: Epoch
    now: Now

    def change(
        self,
        state: JobState,
        phase: Phase,
        reason: str,
        *,
        attempt: Attempt | None = None,
        lease: Lease | None = None,
        failures: FailureHistory | None = None,
        losses: int | None = None,
        not_before: float = 0.0,
        runs: RunHistory | None = None,
    ) -> UpdateState:
        """Return the command that moves the job from `state` to `phase`. Pass `lease` if an attempt is alive."""
        # While an attempt is alive, or one is about to start, the user's last request has not been carried out completely.
        request_pending = lease is not None or phase in (Phase.PENDING, Phase.SCHEDULED)
        next_state = state.transition_to(
            phase,
            reason,
            wall=self.now.wall,
            epoch=self.epoch,
            attempt=attempt,
            node=lease.node if lease is not None else None,
            failures=failures,
            losses=losses,
            heard=None if request_pending else self.job.desired_version,
            not_before=not_before,
            runs=runs,
        )
        return UpdateState(self.job.id, next_state)
