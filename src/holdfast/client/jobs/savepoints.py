"""Make, list and remove savepoints."""

from holdfast.client.callbacks import Callbacks
from holdfast.client.connection.identity import current_user
from holdfast.client.connection.storage_location import read_storage_location
from holdfast.client.connection.target import Target
from holdfast.errors import Refused
from holdfast.savepoint import Manifest, SavepointSource, SavepointStore
from holdfast.zk.records.stored_job import StoredJob


def make_savepoint(target: Target, job: StoredJob, callbacks: Callbacks) -> Manifest:
    """Copy the job's checkpoint. Raise Refused if it has committed no batch, and Unavailable if the storage fails."""
    with callbacks.copying(f"copying the checkpoint of {job.label}") as begin:
        return SavepointStore(read_storage_location(target)).create(
            savepoint_source(job), by=current_user(), start_progress=begin
        )


def savepoint_source(job: StoredJob) -> SavepointSource:
    spec = job.spec
    return SavepointSource(
        job=job.id,
        name=job.label,
        version=job.state.versions.current if job.state is not None else 1,
        ancestors=spec.ancestors if spec is not None else (),
        running=job.lease is not None,
    )


def list_savepoints(target: Target, text: str | None = None) -> list[Manifest]:
    """Return the savepoints, the oldest first; with `text`, only those of the job with this name or id."""
    manifests = SavepointStore(read_storage_location(target)).list_all()
    return [manifest for manifest in manifests if text in (None, *_job_names(manifest))]


def _job_names(manifest: Manifest) -> tuple[str, ...]:
    """Return the texts that name the savepoint's job: its id, its label `name (id)` and its name."""
    return manifest.job, manifest.name, manifest.name.partition(" ")[0]


def remove_savepoints(target: Target, ids: tuple[str, ...]) -> None:
    """Remove savepoints. Raise Refused, and remove none, if one of them does not exist."""
    savepoints = SavepointStore(read_storage_location(target))
    for id in ids:
        savepoints.find(id)
    for id in ids:
        savepoints.remove(id)


def remove_older_savepoints(target: Target, job: str, keep: int) -> list[Manifest]:
    """Remove all savepoints of a job except the newest `keep`, and return the removed ones."""
    savepoints = SavepointStore(read_storage_location(target))
    removed = [manifest for manifest in savepoints.list_all() if manifest.job == job][:-keep]
    for manifest in removed:
        savepoints.remove(manifest.id)
    return removed


def refuse_running(job: StoredJob) -> None:
    """Raise Refused if the job may still write to its checkpoint, so that it cannot be continued from there."""
    if job.lease is not None or (job.state is not None and job.state.phase.occupies_slots):
        raise Refused(
            f"{job.label} is running, so its checkpoint cannot be restored: run 'holdfast savepoint {job.id}' and restore "
            f"the savepoint, or end the job first with --instead-of {job.id}"
        )
