"""Status of a cluster: its leader, its nodes and the health of its ZooKeeper servers."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from holdfast.client.connection.read import read_with_retry
from holdfast.client.connection.target import Target
from holdfast.errors import Unavailable
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.cluster_view import ClusterView, read_cluster
from holdfast.zk.records.job_reader import read_jobs
from holdfast.zk.records.stored_job import count_slots_used
from holdfast.zk.session.reader import Reader
from holdfast.zk.session.server_health import ServerHealth, read_health

HEALTH_S = 2.0


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    view: ClusterView | None
    """Leader, epoch and nodes; None if ZooKeeper does not answer."""
    slots_used: Mapping[NodeId, int]
    zookeeper: tuple[ServerHealth, ...]
    """Health of each ZooKeeper server, also if the cluster cannot be read."""
    failure: Unavailable | None
    """Reason why `view` is None."""


def read_status(target: Target) -> ClusterStatus:
    """Read the status. ZooKeeper's health is read even if the cluster's records cannot be."""
    view, used, failure = None, Counter[NodeId](), None
    try:
        view, used = read_with_retry(target, lambda client: _read_view(client, target))
    except Unavailable as error:
        failure = error
    return ClusterStatus(view, used, tuple(_read_healths(target)), failure)


async def _read_view(client: Reader, target: Target) -> tuple[ClusterView, Counter[NodeId]]:
    view = await read_cluster(client, target.paths)
    return view, count_slots_used(await read_jobs(client, target.paths, include_ended=False))


def _read_healths(target: Target) -> list[ServerHealth]:
    tls = target.zookeeper.tls
    context = tls.context() if tls is not None else None

    def read(server: tuple[str, str, int]) -> ServerHealth:
        id, host, port = server
        return read_health(id, host, port, timeout_s=HEALTH_S, context=context)

    with ThreadPoolExecutor(max_workers=len(target.servers)) as pool:
        return list(pool.map(read, target.servers))
