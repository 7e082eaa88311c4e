"""Output of one attempt of a job, read in chunks from the node that ran it."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from holdfast.api.log_routes import CHUNK_BYTES_MAX, GAP_HEADER, NEXT_OFFSET_HEADER
from holdfast.client.logs.node_http import http_get
from holdfast.errors import Refused, Unavailable
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.zk.records.cluster_view import read_cluster
from holdfast.zk.records.job_reader import read_job
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.session.client import Client
from holdfast.zk.session.missing_znode import none_if_missing


@dataclass(frozen=True, slots=True)
class LogSources:
    """Nodes that may have the logs of a job, and the secret that they require."""

    job: StoredJob
    secret: str
    addresses: dict[NodeId, str]


@dataclass(frozen=True, slots=True)
class LogChunk:
    data: bytes
    last: bool
    """True if the log has no further bytes at the moment."""
    gap: bool
    """True if bytes before this chunk were dropped by log rotation."""


async def locate_logs(client: Client, paths: Paths, id: JobId) -> LogSources:
    """Read the job, the addresses of all nodes and the API token. Raise Refused if the job is gone."""
    view = await read_cluster(client, paths)
    secret = await none_if_missing(client.get(paths.secret))
    job = await read_job(client, paths, id)
    if job is None:
        raise Refused(f"job {id} is gone")
    if secret is None:
        raise Refused("no node has ever joined this cluster, so it has no logs")
    return LogSources(job, secret.data.decode(errors="replace"), {node: record.address for node, record in view.nodes})


class AttemptLog:
    """Read position in the log of one attempt."""

    def __init__(self, job: JobId, attempt: Attempt, *, tail: int | None = None) -> None:
        self._job = job
        self.attempt = attempt
        self._tail = tail
        self._offset = "0"
        self._last_node: NodeId | None = None

    async def read(self, sources: LogSources) -> LogChunk:
        """Read the next chunk. Raise Unavailable if the log's node does not answer, and Refused if no node has the log."""
        for node in self._candidates(sources):
            if (chunk := await self._request(sources, node)) is not None:
                self._last_node = node
                return chunk
        raise Refused(f"no live node has the output of attempt {self.attempt} of {sources.job.label}")

    def _candidates(self, sources: LogSources) -> list[NodeId]:
        """Return the node that had the log before or ran the attempt; all nodes if neither is known."""
        node = self._last_node or node_of_attempt(sources.job, self.attempt)
        if node is None:
            return sorted(sources.addresses)
        if node not in sources.addresses:
            raise Unavailable(f"node {node}, which has the output of attempt {self.attempt}, is not reachable at the moment")
        return [node]

    async def _request(self, sources: LogSources, node: NodeId) -> LogChunk | None:
        """Request the next part of the log from a node. Return None if this node has no log of the attempt."""
        query = {"attempt": str(self.attempt), "offset": self._offset, "limit": str(CHUNK_BYTES_MAX)}
        if self._tail is not None:
            query["tail"] = str(self._tail)
        path = f"/v1/jobs/{quote(self._job)}/logs?{urlencode(query)}"
        response = await http_get(sources.addresses[node], path, token=sources.secret)
        if response.status == 404:
            return None
        if response.status != 200:
            raise Unavailable(f"node {node} answers {response.status}: {response.body[:200].decode(errors='replace')}")
        self._offset, self._tail = response.headers.get(NEXT_OFFSET_HEADER.lower(), self._offset), None
        gap = response.headers.get(GAP_HEADER.lower()) == "true"
        return LogChunk(response.body, last=len(response.body) < CHUNK_BYTES_MAX, gap=gap)


def node_of_attempt(job: StoredJob, attempt: Attempt) -> NodeId | None:
    """Return the node that ran an attempt, from the lease, the report or the events; None if they no longer contain it."""
    if job.lease is not None and job.lease.attempt == attempt:
        return job.lease.node
    if job.report is not None and job.report.attempt == attempt:
        return job.report.node
    events = job.state.events if job.state is not None else ()
    return next((event.node for event in reversed(events) if event.attempt == attempt and event.node is not None), None)
