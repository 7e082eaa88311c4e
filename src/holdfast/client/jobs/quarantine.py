"""Jobs in quarantine: list, release and discard them."""

import base64
import binascii
from dataclasses import dataclass

from holdfast.client.connection.read import read_with_retry
from holdfast.client.connection.retry import run_with_retry
from holdfast.client.connection.target import Target
from holdfast.errors import Refused
from holdfast.model.identifiers import JobId
from holdfast.zk.records.job_lookup import find_job
from holdfast.zk.records.job_reader import read_job
from holdfast.zk.records.quarantine import (
    QuarantineEntry,
    discard_job,
    read_quarantine,
    read_quarantine_entry,
    release_job,
)
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.session.reader import Reader


@dataclass(frozen=True, slots=True)
class QuarantinedJob:
    """Job that was set aside because a part of it cannot be read."""

    entry: QuarantineEntry
    job: StoredJob | None
    """The readable parts of the job; None if nothing but the entry is left."""

    @property
    def id(self) -> JobId:
        return self.entry.job

    @property
    def name(self) -> str | None:
        return self.job.name if self.job is not None else None

    @property
    def reason(self) -> str:
        return self.entry.record.reason if self.entry.record is not None else self.entry.problem

    @property
    def since(self) -> float | None:
        """Unix time of the quarantine."""
        return self.entry.record.wall if self.entry.record is not None else None

    @property
    def original(self) -> bytes:
        """Bytes that could not be read."""
        try:
            return base64.b64decode(self.entry.record.original if self.entry.record is not None else "")
        except (binascii.Error, ValueError):
            return b""


def list_quarantine(target: Target) -> list[QuarantinedJob]:
    async def query(client: Reader) -> list[QuarantinedJob]:
        entries = await read_quarantine(client, target.paths)
        return [QuarantinedJob(entry, await read_job(client, target.paths, entry.job)) for entry in entries]

    return read_with_retry(target, query)


def find_quarantined_job(target: Target, text: str) -> QuarantinedJob:
    """Find a job in quarantine. Its id is enough even if nothing but the entry is left. Raise Refused if there is none."""

    async def query(client: Reader) -> QuarantinedJob:
        for entry in await read_quarantine(client, target.paths):
            if entry.job == text:
                return QuarantinedJob(entry, await read_job(client, target.paths, entry.job))
        job = await find_job(client, target.paths, text)
        found = await read_quarantine_entry(client, target.paths, job.id)
        if found is None:
            raise Refused(f"{job.label} is not in quarantine ({job.phase or '?'}: {job.reason})")
        return QuarantinedJob(found, job)

    return read_with_retry(target, query)


def release_quarantined_job(target: Target, id: JobId, *, force: bool) -> None:
    run_with_retry(target, lambda client: release_job(client, target.paths, id, force=force), repeatable=False)


def discard_quarantined_job(target: Target, id: JobId) -> None:
    run_with_retry(target, lambda client: discard_job(client, target.paths, id), repeatable=False)
