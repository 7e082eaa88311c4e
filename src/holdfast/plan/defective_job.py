"""Decisions about jobs that are incomplete, unreadable or quarantined."""

from holdfast.model.codec import UnreadableRecord
from holdfast.model.job import Desired, JobState, Lease
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.plan.command import Command, Quarantine, UpdateState
from holdfast.plan.snapshot import JobView
from holdfast.plan.state_change import CANCELLED_REASON, StateChanger


def find_defect(job: JobView) -> str | None:
    """Return why this job cannot be planned, or None if all its records are consistent."""
    parts = (("spec", job.spec), ("desired", job.desired), ("state", job.state), ("report", job.report))
    for name, record in parts:
        if isinstance(record, UnreadableRecord):
            return f"its {name} cannot be read: {record.reason}"
    if job.state is None:
        return "its state is missing: the job was submitted or deleted only in part"
    if job.spec is None or job.desired is None or not job.complete:
        return "one of its znodes is missing: the job was deleted in part, or restored by hand"
    if not job.owns_name:
        return "its name belongs to another job or to none: the job was restored by hand"
    if isinstance(job.state, JobState) and job.lease is None and job.state.attempt > job.attempt:
        return (
            f"its state names attempt {job.state.attempt}, but the last attempt is {job.attempt}: the job was restored by hand"
        )
    return None


def handle_defect(changer: StateChanger, defect: str) -> Command | None:
    """Quarantine the job, unless an attempt is alive: it continues, and an unreadable state is rebuilt from its lease."""
    job = changer.job
    if not isinstance(job.lease, Lease):
        return Quarantine(job.id, defect, _quarantined_state(changer, defect))
    if isinstance(job.state, UnreadableRecord):
        return UpdateState(job.id, _rebuild_state(changer, job.lease, job.state), rebuilt=True)
    return None


def review_quarantined(changer: StateChanger, state: JobState, *, has_record: bool) -> Command | None:
    """Keep the job in quarantine until a user cancels it, or releases it and no defect is left.

    `has_record` is True while the quarantine znode exists; releasing the job deletes this znode.
    """
    job = changer.job
    if job.desired is Desired.CANCEL and job.lease is None:
        return changer.change(state, Phase.CANCELLED, CANCELLED_REASON)
    if has_record or job.desired is not Desired.RUN or job.desired_version <= state.heard or find_defect(job) is not None:
        return None
    return changer.change(state, Phase.PENDING, "a user released the job from quarantine")


def _quarantined_state(changer: StateChanger, defect: str) -> JobState | None:
    old = changer.job.state
    if isinstance(old, JobState):
        return changer.change(old, Phase.QUARANTINED, defect).state
    if old is None:
        return None
    # The quarantine record keeps the original bytes. The attempt number is kept, so that it is never assigned again.
    fresh = JobState(Phase.PENDING, defect, attempt=changer.job.attempt, versions=Versions(changer.job.spec_version))
    return changer.change(fresh, Phase.QUARANTINED, defect).state


def _rebuild_state(changer: StateChanger, lease: Lease, state: UnreadableRecord) -> JobState:
    reason = f"its state could not be read ({state.reason}); it was rebuilt from the lease of attempt {lease.attempt}"
    fresh = JobState(Phase.PENDING, reason, attempt=lease.attempt, versions=Versions(changer.job.spec_version))
    return fresh.transition_to(
        Phase.RUNNING, reason, wall=changer.now.wall, epoch=changer.epoch, attempt=lease.attempt, node=lease.node
    )
