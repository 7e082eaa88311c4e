"""Start a new job from a savepoint or from another job's checkpoint, and replace running jobs by it."""

from collections.abc import Sequence

from holdfast.client.callbacks import Callbacks
from holdfast.client.connection.storage_location import read_storage_location
from holdfast.client.connection.target import Target
from holdfast.client.jobs.job_control import Decide, control_job, decide_cancel, decide_stop
from holdfast.client.jobs.listing import get_job
from holdfast.client.jobs.savepoints import refuse_running, savepoint_source
from holdfast.client.jobs.waiting import Condition, until_ended, until_stopped, wait_for_job
from holdfast.errors import HoldfastError, Refused
from holdfast.model.identifiers import JobId
from holdfast.savepoint import Manifest, SavepointStore
from holdfast.savepoint.savepoint_store import is_savepoint_id
from holdfast.zk.records.stored_job import StoredJob


class Restore:
    """Checkpoint that a new job starts from, and the jobs that it replaces.

    The constructor raises Refused for everything that can be wrong, before any job is stopped.
    """

    def __init__(self, target: Target, restore: str | None, replaces: Sequence[str], callbacks: Callbacks) -> None:
        self._target = target
        self._callbacks = callbacks
        self._savepoints = SavepointStore(read_storage_location(target))
        self._replaced = [get_job(target, text) for text in dict.fromkeys(replaces)]
        self._savepoint: Manifest | None = None
        self._job: StoredJob | None = None
        if restore is not None and is_savepoint_id(restore):
            self._savepoint = self._savepoints.find(restore)
        elif restore is not None:
            self._job = get_job(target, restore)
            if self._job.id not in {job.id for job in self._replaced}:
                refuse_running(self._job)

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Jobs whose checkpoint the new job continues, the newest first. Sinks use the oldest one's name."""
        if self._savepoint is not None:
            return (self._savepoint.job, *self._savepoint.ancestors)
        if self._job is not None:
            older = self._job.spec.ancestors if self._job.spec is not None else ()
            return (self._job.id, *older)
        return ()

    def prepare(self, new_id: JobId) -> None:
        """Stop the replaced jobs, copy the checkpoint for the new job, then cancel the replaced jobs."""
        live = [job for job in self._replaced if not job.has_ended]
        for job in live:
            self._control(job, decide_stop, until_stopped)
        try:
            self._copy(new_id)
        except BaseException:
            if live:
                stopped = ", ".join(job.label for job in live)
                self._callbacks.note(f"nothing was submitted; {stopped} is stopped, and 'holdfast resume' starts it again")
            raise
        for job in live:
            self._control(job, decide_cancel, until_ended)

    def _control(self, job: StoredJob, decide: Decide, condition: Condition) -> None:
        result = control_job(self._target, job.id, decide)
        self._callbacks.note(f"{result.job.label} {result.effect}")
        if not result.has_leader:
            self._callbacks.note("no node leads at the moment; the request takes effect as soon as a node does")
        wait_for_job(self._target, result.job, condition, self._callbacks)

    def _copy(self, new_id: JobId) -> None:
        if self._savepoint is None and self._job is None:
            return
        with self._callbacks.copying("copying the checkpoint") as begin:
            if self._savepoint is not None:
                self._savepoints.restore(self._savepoint, new_id, begin)
                batches, source = self._savepoint.batches, f"savepoint {self._savepoint.id} of {self._savepoint.name}"
            elif self._job is not None:
                job = get_job(self._target, self._job.id)
                batches, source = self._savepoints.copy_checkpoint(savepoint_source(job), new_id, begin), job.label
        last = ", ".join(f"{query.strip('/') or 'its query'} after batch {batch:,}" for query, batch in batches.items())
        self._callbacks.note(f"the new job continues from {source}: {last}")

    def abandon(self, new_id: JobId) -> None:
        """Remove the copied checkpoint of a job that was not submitted."""
        if self._savepoint is None and self._job is None:
            return
        try:
            self._savepoints.remove_checkpoint(new_id)
        except HoldfastError as error:
            self._callbacks.note(f"the copy of the checkpoint could not be removed: {error}")


def plan_restore(target: Target, restore: str | None, replaces: Sequence[str], callbacks: Callbacks) -> Restore | None:
    """Return None if the job starts from nothing and replaces no job. Raise Refused if that is not possible."""
    if restore is None and not replaces:
        return None
    if restore is not None and restore in ("", "."):
        raise Refused("--restore needs a job or a savepoint")
    return Restore(target, restore, replaces, callbacks)
