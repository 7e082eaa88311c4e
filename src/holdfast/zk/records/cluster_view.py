"""Leader, epoch and nodes of a cluster, as stored in ZooKeeper."""

from dataclasses import dataclass

from holdfast.errors import Refused
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import MalformedRecord, NewerSchema, decode
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.epoch import decode_epoch, is_contender
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, NoNode


@dataclass(frozen=True, slots=True)
class ClusterView:
    leader: NodeId | None
    """None if the leader of the current epoch is gone and no other node has taken the next epoch."""
    epoch: int
    nodes: tuple[tuple[NodeId, NodeRecord], ...]
    problems: tuple[str, ...]


async def read_cluster(client: Client, paths: Paths) -> ClusterView:
    """Read the cluster. Raises Refused if it does not exist or is incomplete."""
    try:
        epoch = await client.get(paths.epoch)
        record = decode_epoch(paths, epoch)
        leader = None
        if record is not None and is_contender(record.contender):
            stat = await client.exists(paths.contender(record.contender))
            leader = record.leader if stat is not None and stat.ephemeral_owner != 0 else None
        names = sorted(await client.children(paths.nodes))
    except NoNode as error:
        if str(error).startswith(paths.epoch):
            raise Refused(f"there is no Holdfast cluster at {paths.root} yet: no node has ever joined it") from None
        raise Refused(
            f"the cluster at {paths.root} is incomplete: {error}; a running node recreates the missing znode"
        ) from None
    nodes, problems = [], []
    for name in names:
        node = NodeId(name)
        try:
            nodes.append((node, decode(NodeRecord, (await client.get(paths.node(node))).data, where=paths.node(node))))
        except NoNode:
            continue  # the node left after its name was read
        except (MalformedRecord, NewerSchema) as error:
            problems.append(str(error))
    return ClusterView(leader, epoch.stat.version, tuple(nodes), tuple(problems))
