"""Leader, epoch and nodes of a cluster, as stored in ZooKeeper."""

from dataclasses import dataclass

from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import MalformedRecord, NewerRecord, NewerSchema, decode
from holdfast.model.epoch_record import EpochRecord
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.epoch import read_leader_and_nodes
from holdfast.zk.records.job_records import decode_znode
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.missing_znode import none_if_missing
from holdfast.zk.session.reader import NoNode, Reader


@dataclass(frozen=True, slots=True)
class ClusterView:
    leader: NodeId | None
    """None if the leader of the current epoch is gone and no other node has taken the next epoch."""
    epoch: int
    nodes: tuple[tuple[NodeId, NodeRecord], ...]
    problems: tuple[str, ...]


async def read_cluster(client: Reader, paths: Paths) -> ClusterView:
    """Read the cluster. Raises Refused if it does not exist or is incomplete."""
    leader, epoch, ids = await read_leader_and_nodes(client, paths)
    epoch_record = decode_znode(EpochRecord, await none_if_missing(client.get(paths.epoch)), paths.epoch)
    nodes, problems = [], [epoch_record.reason] if isinstance(epoch_record, NewerRecord) else []
    for node in ids:
        try:
            nodes.append((node, decode(NodeRecord, (await client.get(paths.node(node))).data, where=paths.node(node))))
        except NoNode:
            continue  # the node left after its name was read
        except (MalformedRecord, NewerSchema) as error:
            problems.append(str(error))
    return ClusterView(leader, epoch, tuple(nodes), tuple(problems))
