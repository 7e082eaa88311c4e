"""Read jobs, their events and their details."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.client.connection.read import read_with_retry
from holdfast.client.connection.target import Target
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Event
from holdfast.zk.records.epoch import read_leader_and_nodes
from holdfast.zk.records.job_reader import read_jobs
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.session.missing_znode import children_or_empty, none_if_missing
from holdfast.zk.session.reader import Reader

if TYPE_CHECKING:
    from holdfast.client.jobs.checkpoint_status import CheckpointStatus
    from holdfast.zk.records.cluster_view import ClusterView
    from holdfast.zk.records.upgrade import SpecVersion

NO_NAME = "?"


@dataclass(frozen=True, slots=True)
class JobList:
    """Jobs of a cluster: live jobs by name, then ended jobs with the last submitted first."""

    jobs: tuple[StoredJob, ...]
    leader: NodeId | None
    """Node that leads; None if no node does, in which case no job changes."""
    hidden: int = 0
    """Number of ended jobs that were left out."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Change of a job's phase."""

    job: StoredJob
    event: Event


@dataclass(frozen=True, slots=True)
class JobDetails:
    """All that is known about one job."""

    job: StoredJob
    cluster: "ClusterView"
    versions: "tuple[SpecVersion, ...]"
    """Versions of the job's program, the first one first."""
    checkpoint: "CheckpointStatus"


def list_jobs(target: Target, *, include_ended: bool) -> JobList:
    async def query(client: Reader) -> JobList:
        leader, _, _ = await read_leader_and_nodes(client, target.paths)
        total = len(await children_or_empty(client, target.paths.jobs))
        jobs = await read_jobs(client, target.paths, include_ended=include_ended)
        # Jobs that are submitted or deleted between the two reads are at most miscounted.
        hidden = 0 if include_ended else max(total - len(jobs), 0)
        return JobList(tuple(sorted(jobs, key=_sort_key)), leader, hidden)

    return read_with_retry(target, query)


def _sort_key(job: StoredJob) -> tuple[bool, float, str, str]:
    return (job.has_ended, -(job.submitted_ms or 0) if job.has_ended else 0, job.name or NO_NAME, job.id)


def get_job(target: Target, text: str) -> StoredJob:
    """Find a job by its name, its id or the beginning of its id. Raise Refused if there is none."""
    from holdfast.zk.records.job_lookup import find_job

    return read_with_retry(target, lambda client: find_job(client, target.paths, text))


def list_events(target: Target, text: str | None) -> list[JobEvent]:
    """Return the recent events of one job, or of all jobs if `text` is None, the oldest first."""
    from holdfast.zk.records.job_lookup import find_job

    async def query(client: Reader) -> list[StoredJob]:
        if text is None:
            return await read_jobs(client, target.paths, include_ended=True)
        return [await find_job(client, target.paths, text)]

    return events_of(read_with_retry(target, query))


def events_of(jobs: list[StoredJob]) -> list[JobEvent]:
    """Return the events that are stored with the jobs, the oldest first."""
    events = [JobEvent(job, event) for job in jobs if job.state is not None for event in job.state.events]
    return sorted(events, key=lambda each: (each.event.wall, each.job.id, each.event.number))


def read_details(target: Target, text: str) -> JobDetails:
    from holdfast.client.jobs.checkpoint_status import read_checkpoint_status
    from holdfast.zk.records.cluster_view import read_cluster
    from holdfast.zk.records.job_lookup import find_job
    from holdfast.zk.records.upgrade import read_versions

    async def query(client: Reader) -> "tuple[StoredJob, ClusterView, list[SpecVersion], str | None]":
        view = await read_cluster(client, target.paths)
        storage = await none_if_missing(client.get(target.paths.storage))
        location = storage.data.decode(errors="replace") if storage is not None else None
        job = await find_job(client, target.paths, text)
        return job, view, await read_versions(client, target.paths, job.id), location

    job, view, versions, location = read_with_retry(target, query)
    return JobDetails(job, view, tuple(versions), read_checkpoint_status(job, location))
