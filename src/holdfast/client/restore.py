"""What a new job begins with, and which jobs it takes the place of: `submit --restore` and `--instead-of`."""

from collections.abc import Sequence

from holdfast.cli.commands.job_control import cancel_and_wait, stop_and_wait
from holdfast.cli.commands.savepoint import copying, refuse_live, source_of
from holdfast.cli.render.sanitize import plain
from holdfast.cli.waiting import say
from holdfast.client.session import read
from holdfast.client.target import Target
from holdfast.client.upload import storage_location
from holdfast.errors import HoldfastError, Refused
from holdfast.model.identifiers import JobId
from holdfast.savepoint import Manifest, Savepoints
from holdfast.savepoint.savepoint_store import is_savepoint
from holdfast.zk.records.job_reader import Job, find_job


class Restoration:
    """Everything that can be wrong with it is said before anything is stopped."""

    def __init__(self, target: Target, restore: str | None, instead_of: Sequence[str]) -> None:
        self._target = target
        self._savepoints = Savepoints(storage_location(target))
        self._replaced = [self._find(text) for text in dict.fromkeys(instead_of)]
        self._savepoint: Manifest | None = None
        self._job: Job | None = None
        if restore is not None and is_savepoint(restore):
            self._savepoint = self._savepoints.find(restore)
        elif restore is not None:
            self._job = self._find(restore)
            if self._job.id not in {job.id for job in self._replaced}:
                refuse_live(self._job)

    def _find(self, text: str) -> Job:
        return read(self._target, lambda client: find_job(client, self._target.paths, text))

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The newest first. All of them: sinks count them, and go by the name of the oldest."""
        if self._savepoint is not None:
            return (self._savepoint.job, *self._savepoint.ancestors)
        if self._job is not None:
            older = self._job.spec.ancestors if self._job.spec is not None else ()
            return (self._job.id, *older)
        return ()

    def prepare(self, fresh: JobId) -> None:
        """The jobs that it replaces are stopped, its checkpoint is copied, and then they are ended for good."""
        live = [job for job in self._replaced if not job.ended]
        for job in live:
            stop_and_wait(self._target, job)
        try:
            self._copy(fresh)
        except BaseException:
            if live:
                stopped = ", ".join(job.label for job in live)
                say(f"nothing was submitted, and {stopped} is stopped: 'holdfast resume' starts it again")
            raise
        for job in live:
            cancel_and_wait(self._target, job)

    def _copy(self, fresh: JobId) -> None:
        with copying("copying the checkpoint") as begin:
            if self._savepoint is not None:
                self._savepoints.restore(self._savepoint, fresh, begin)
                batches, what = self._savepoint.batches, f"savepoint {self._savepoint.id} of {self._savepoint.name}"
            elif self._job is not None:
                batches = self._savepoints.take_over(source_of(self._find(self._job.id)), fresh, begin)
                what = self._job.label
            else:
                return
        last = ", ".join(f"{query.strip('/') or 'its query'} after batch {batch:,}" for query, batch in batches.items())
        say(f"it goes on from {plain(what)}: {last}")

    def abandon(self, fresh: JobId) -> None:
        """It was not submitted after all."""
        if self._savepoint is None and self._job is None:
            return
        try:
            self._savepoints.abandon(fresh)
        except HoldfastError as error:
            say(f"the copy of the checkpoint could not be removed: {error}")


def restoration(target: Target, restore: str | None, instead_of: Sequence[str]) -> Restoration | None:
    if restore is None and not instead_of:
        return None
    if restore is not None and restore in ("", "."):
        raise Refused("--restore needs a job or a savepoint")
    return Restoration(target, restore, instead_of)
