"""What one attempt has printed, piece by piece, from the node that ran it."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from holdfast.api.log_routes import CHUNK_BYTES_MAX, GAP, NEXT
from holdfast.client.node_http import get
from holdfast.errors import Refused, Unavailable
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.zk.records.cluster_view import observe
from holdfast.zk.records.job_reader import Job, optional, read_job
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client


@dataclass(frozen=True, slots=True)
class Seen:
    """What it takes to find a log."""

    job: Job
    secret: str
    addresses: dict[NodeId, str]


@dataclass(frozen=True, slots=True)
class Piece:
    data: bytes
    last: bool
    """There is no more at the moment."""
    gap: bool
    """Something before it was dropped."""


async def look(client: Client, paths: Paths, id: JobId) -> Seen:
    view = await observe(client, paths)
    secret = await optional(client.get(paths.secret))
    job = await read_job(client, paths, id)
    if job is None:
        raise Refused(f"job {id} is gone")
    if secret is None:
        raise Refused("no node has ever joined this cluster, so there are no logs")
    return Seen(job, secret.data.decode(errors="replace"), {node: record.address for node, record in view.nodes})


class AttemptLog:
    def __init__(self, job: JobId, attempt: Attempt, *, tail: int | None = None) -> None:
        self._job = job
        self.attempt = attempt
        self._tail = tail
        self._offset = "0"
        self._found_on: NodeId | None = None

    async def read(self, seen: Seen) -> Piece:
        """Raises Unavailable if its node does not answer now, and Refused if nobody has the log."""
        for node in self._where(seen):
            if (piece := await self._ask(seen, node)) is not None:
                self._found_on = node
                return piece
        raise Refused(f"no node that is there has what attempt {self.attempt} of {seen.job.label} printed")

    def _where(self, seen: Seen) -> list[NodeId]:
        """The node that had it before, or ran it. If nobody knows, every node is asked."""
        known = self._found_on or ran_on(seen.job, self.attempt)
        if known is None:
            return sorted(seen.addresses)
        if known not in seen.addresses:
            raise Unavailable(f"node {known}, which has what attempt {self.attempt} printed, is not there at the moment")
        return [known]

    async def _ask(self, seen: Seen, node: NodeId) -> Piece | None:
        """None if this node has nothing of it."""
        query = {"attempt": str(self.attempt), "offset": self._offset, "limit": str(CHUNK_BYTES_MAX)}
        if self._tail is not None:
            query["tail"] = str(self._tail)
        reply = await get(seen.addresses[node], f"/v1/jobs/{quote(self._job)}/logs?{urlencode(query)}", token=seen.secret)
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise Unavailable(f"node {node} answers {reply.status}: {reply.body[:200].decode(errors='replace')}")
        self._offset, self._tail = reply.headers.get(NEXT.lower(), self._offset), None
        gap = reply.headers.get(GAP.lower()) == "true"
        return Piece(reply.body, last=len(reply.body) < CHUNK_BYTES_MAX, gap=gap)


def ran_on(job: Job, attempt: Attempt) -> NodeId | None:
    """The node that was given this attempt, as far as anybody still knows."""
    if job.lease is not None and job.lease.attempt == attempt:
        return job.lease.node
    if job.report is not None and job.report.attempt == attempt:
        return job.report.node
    events = job.state.events if job.state is not None else ()
    return next((event.node for event in reversed(events) if event.attempt == attempt and event.node is not None), None)
