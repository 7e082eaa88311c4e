"""Copy the events of a cluster from ZooKeeper, and the output of its drivers from the nodes, for `holdfast explain`.

A source that cannot be read becomes a note; the other sources are still copied.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.client.connection.retry import RetryingSession
from holdfast.client.connection.target import Target
from holdfast.client.jobs.job_json import event_as_json
from holdfast.client.jobs.listing import events_of
from holdfast.client.logs import local_logs
from holdfast.client.logs.attempt_log import AttemptLog, LogSources, node_of_attempt
from holdfast.client.logs.log_copies import LogCopies
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.local.directory_layout import DirectoryLayout
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.phase import Phase
from holdfast.node.attempts import CLOSED_ATTEMPTS_KEPT
from holdfast.zk.records.cluster_view import read_cluster
from holdfast.zk.records.job_reader import read_jobs
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.session.client import Client
from holdfast.zk.session.missing_znode import none_if_missing

EVENTS = "events of the cluster"
NAMED_MAX = 3
_HEALTHY = (Phase.RUNNING, Phase.SCHEDULED, Phase.FINISHED, Phase.CANCELLED)


@dataclass(frozen=True, slots=True)
class ClusterRecords:
    """Records of the cluster in ZooKeeper."""

    jobs: tuple[StoredJob, ...] = ()
    secret: str = ""
    addresses: tuple[tuple[NodeId, str], ...] = ()


async def copy_cluster(target: Target, copies: LogCopies) -> None:
    """Copy everything into `copies`. Raise Unavailable or Refused if nothing can be copied."""
    records, failure = ClusterRecords(), None
    try:
        async with RetryingSession(target) as session:
            records = await session.call(lambda client: _read_records(client, target.paths))
    except HoldfastError as error:
        failure = error
        copies.notes.append(f"the records in ZooKeeper are missing from this analysis: {error}")
    local = DirectoryLayout(target.directory) if target.directory is not None else None
    names = _display_names(records.jobs)
    copies.add(EVENTS, map(_encode_line, _merge_events(records.jobs, local)))
    if local is not None:
        local_logs.copy_daemons(local, copies)
        local_logs.copy_attempts(local, names, copies)
    else:
        await _LogFetcher(records, names, copies).run()
    if failure is not None and not copies.files:
        raise failure


async def _read_records(client: Client, paths: Paths) -> ClusterRecords:
    view = await read_cluster(client, paths)
    secret = await none_if_missing(client.get(paths.secret))
    if secret is None:
        raise Refused("no node has ever joined this cluster, so there is nothing to explain")
    jobs = await read_jobs(client, paths, include_ended=True)
    addresses = tuple((node, record.address) for node, record in view.nodes)
    return ClusterRecords(tuple(jobs), secret.data.decode(errors="replace"), addresses)


def _display_names(jobs: Iterable[StoredJob]) -> dict[str, str]:
    """Return the name of each job by id, with the id appended if several jobs have the same name."""
    counts = Counter(job.name for job in jobs)
    return {job.id: job.name if job.name is not None and counts[job.name] == 1 else job.label for job in jobs}


def _merge_events(jobs: Iterable[StoredJob], local: DirectoryLayout | None) -> list[dict[str, Any]]:
    """Return each event once: ZooKeeper has the newest events, and the nodes' event logs those of their own leaderships."""
    names = {str(job.id): job.name for job in jobs}
    events: dict[tuple[str, int], dict[str, Any]] = {}
    for event in local_logs.read_event_logs(local) if local is not None else ():
        first_keys = {key: event.get(key) for key in ("time", "job")}
        events[event["job"], event["number"]] = {**first_keys, "name": names.get(event["job"]), **event}
    for job_event in events_of(list(jobs)):
        events[job_event.job.id, job_event.event.number] = event_as_json(job_event)
    return sorted(events.values(), key=lambda event: (str(event.get("time")), event["job"], event["number"]))


def _encode_line(event: dict[str, Any]) -> bytes:
    return (json.dumps(event, ensure_ascii=False) + "\n").encode(errors="replace")


class _LogFetcher:
    """Copier of the output of drivers from the nodes. A node that does not answer once is not asked again."""

    def __init__(self, records: ClusterRecords, names: dict[str, str], copies: LogCopies) -> None:
        self._records = records
        self._names = names
        self._copies = copies
        self._addresses = dict(records.addresses)
        self._missing: dict[NodeId, list[str]] = {}

    async def run(self) -> None:
        """Copy jobs that do not run first, and the newest attempts of each job first."""
        for job in sorted(self._records.jobs, key=lambda job: (job.phase in _HEALTHY, job.name or "", job.id)):
            for attempt in range(job.attempt, max(0, job.attempt - CLOSED_ATTEMPTS_KEPT), -1):
                await self._fetch(job, Attempt(attempt))
        for node, names in sorted(self._missing.items()):
            more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
            named = "; ".join(names[:NAMED_MAX])
            self._copies.notes.append(f"node {node} does not answer; its logs are missing from this analysis ({named}{more})")

    async def _fetch(self, job: StoredJob, attempt: Attempt) -> None:
        name = f"job {self._names[job.id]}, attempt {attempt}"
        last_node = node_of_attempt(job, attempt)
        for node in [last_node] if last_node is not None else sorted(self._addresses):
            if node not in self._addresses:
                self._missing.setdefault(node, []).append(name)
                continue
            try:
                await self._copy(job, attempt, node, name)
                return
            except Unavailable:
                del self._addresses[node]
                self._missing.setdefault(node, []).append(name)
            except Refused:
                continue  # this node has no log of the attempt, or no longer

    async def _copy(self, job: StoredJob, attempt: Attempt, node: NodeId, name: str) -> None:
        log, sources = AttemptLog(job.id, attempt), LogSources(job, self._records.secret, {node: self._addresses[node]})
        chunk = await log.read(sources)
        with self._copies.begin(name) as copying:
            copying.write(chunk.data)
            while not chunk.last and not copying.full:
                chunk = await log.read(sources)
                copying.write(chunk.data)
