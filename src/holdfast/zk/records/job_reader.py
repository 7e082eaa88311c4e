"""Read jobs from ZooKeeper, for clients. Read-only.

A damaged job does not prevent the others from being read: its unreadable parts are None, with a description of the problem.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from holdfast.model.codec import UnreadableRecord
from holdfast.model.identifiers import JobId
from holdfast.model.job import NO_ATTEMPT, DesiredRecord, JobState
from holdfast.model.versions import FIRST_VERSION
from holdfast.zk.records.batch_reads import read_in_groups, read_znodes
from holdfast.zk.records.job_records import JobRecords, none_if_unreadable
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.session.missing_znode import children_or_empty
from holdfast.zk.session.reader import Read, Reader, Znode


async def read_jobs(client: Reader, paths: Paths, *, include_ended: bool) -> list[StoredJob]:
    """Return all live jobs, and with `include_ended` the ended ones too, in no particular order."""
    ids = [JobId(name) for name in await children_or_empty(client, paths.jobs)]
    quarantined = set(map(JobId, await children_or_empty(client, paths.quarantine)))
    jobs = await read_in_groups(lambda group: _read_group(client, paths, group, quarantined, include_ended=include_ended), ids)
    return await _add_missing_names(client, paths, jobs)


async def read_job(client: Reader, paths: Paths, id: JobId) -> StoredJob | None:
    """Return the job, or None if it has no znodes."""
    quarantined = [id] if await client.exists(paths.quarantine_entry(id)) is not None else []
    jobs = await _read_group(client, paths, [id], quarantined, include_ended=True)
    return (await _add_missing_names(client, paths, jobs))[0] if jobs else None


async def _add_missing_names(client: Reader, paths: Paths, jobs: list[StoredJob]) -> list[StoredJob]:
    """Name each job whose spec is unreadable after the name znode that points to it."""
    if all(job.name is not None for job in jobs):
        return jobs
    from holdfast.zk.records.submission import decode_name_owner  # expensive import, rarely needed

    names = await children_or_empty(client, paths.names)
    owners = await read_in_groups(lambda group: read_znodes(client, map(paths.name, group)), names)
    names_by_owner = {decode_name_owner(owner): name for name, owner in zip(names, owners, strict=True) if owner is not None}
    return [job if job.name is not None else replace(job, name=names_by_owner.get(job.id)) for job in jobs]


async def _read_group(
    client: Reader, paths: Paths, ids: Sequence[JobId], quarantined: Collection[JobId], *, include_ended: bool
) -> list[StoredJob]:
    """Read the jobs in at most four batched reads: states, other parts, existence of empty jobs, later spec versions."""
    states = await read_znodes(client, [paths.job(id, "state") for id in ids])
    drafts = [_Draft(id, znode) for id, znode in zip(ids, states, strict=True)]
    drafts = [draft for draft in drafts if include_ended or draft.state is None or not draft.state.phase.final]
    parts = iter(await read_znodes(client, [paths.job(draft.id, part) for draft in drafts for part in draft.parts]))
    for draft in drafts:
        draft.add({part: next(parts) for part in draft.parts})
    empty = [draft.id for draft in drafts if draft.is_empty]
    children = await client.read_many([Read(paths.job(id), children=True) for id in empty])
    deleted = {id for id, names in zip(empty, children, strict=True) if names is None}
    drafts = [draft for draft in drafts if draft.id not in deleted]
    upgraded = [draft for draft in drafts if draft.version != FIRST_VERSION]
    specs = await read_znodes(client, [paths.spec(draft.id, draft.version) for draft in upgraded])
    for draft, spec in zip(upgraded, specs, strict=True):
        draft.add({"spec": spec})
    return [draft.build(quarantined=draft.id in quarantined) for draft in drafts]


class _Draft:
    """A job while its znodes are being read."""

    def __init__(self, id: JobId, state: Znode | None) -> None:
        self.id = id
        self._records = JobRecords()
        self._read: dict[str, Znode | None] = {}
        self.add({"state": state})

    def add(self, znodes: Mapping[str, Znode | None]) -> None:
        self._read = {**znodes, **self._read}
        self._records = self._records.add(znodes)

    @property
    def state(self) -> JobState | None:
        return none_if_unreadable(self._records.state)

    @property
    def parts(self) -> list[str]:
        """Names of the znodes to read after the state."""
        parts = ["spec", "desired"]
        if self.state is None or self.state.attempt != NO_ATTEMPT:
            parts += ["lease", "report"]
        return parts if self.state is not None else [*parts, "attempt"]

    @property
    def is_empty(self) -> bool:
        return not any(self._read.values())

    @property
    def version(self) -> int:
        return _spec_version(self.state, none_if_unreadable(self._records.desired))

    def build(self, *, quarantined: bool) -> StoredJob:
        records = self._records
        spec = none_if_unreadable(records.spec)
        first = self._read["spec"] or self._read["desired"] or self._read["state"]
        return StoredJob(
            id=self.id,
            name=spec.name if spec is not None else None,
            submitted_ms=first.stat.created_ms if first is not None else None,
            spec=spec,
            desired_record=none_if_unreadable(records.desired),
            state=self.state,
            lease=none_if_unreadable(records.lease),
            report=none_if_unreadable(records.report),
            assigned_attempt=records.attempt or NO_ATTEMPT,
            quarantined=quarantined,
            defects=tuple(_describe_defects(records)),
        )


def _describe_defects(records: JobRecords) -> Iterator[str]:
    required = {"state": records.state, "desired": records.desired, "spec": records.spec}
    for part, record in (required | {"lease": records.lease, "report": records.report}).items():
        if isinstance(record, UnreadableRecord):
            yield record.reason
        elif record is None and part in required:
            yield f"the job has no {part} znode"


def _spec_version(state: JobState | None, desired_record: DesiredRecord | None) -> int:
    """Return the spec version that is running, or else the version that the next attempt would run."""
    if state is None:
        return desired_record.version if desired_record is not None else FIRST_VERSION
    if state.phase.occupies_slots or desired_record is None:
        return state.versions.current
    return state.versions.next_version(desired_record.version)
