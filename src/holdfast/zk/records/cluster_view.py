"""The cluster as its znodes tell it, for whoever asks: who leads, and which nodes there are."""

from dataclasses import dataclass

from holdfast.errors import Refused
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import Garbage, NewerSchema, decode
from holdfast.model.identifiers import NodeId
from holdfast.zk.leadership.election import is_contender, read_epoch
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, NoNode


@dataclass(frozen=True, slots=True)
class ClusterView:
    leader: NodeId | None
    """None if the winner of the newest epoch is gone and nobody has taken the next."""
    epoch: int
    nodes: tuple[tuple[NodeId, NodeRecord], ...]
    problems: tuple[str, ...]


async def observe(client: Client, paths: Paths) -> ClusterView:
    try:
        epoch = await client.get(paths.epoch)
        record = read_epoch(paths, epoch)
        leader = None
        if record is not None and is_contender(record.contender):
            stat = await client.exists(paths.contender(record.contender))
            leader = record.leader if stat is not None and stat.owner != 0 else None
        names = sorted(await client.children(paths.nodes))
    except NoNode as error:
        if str(error).startswith(paths.epoch):
            raise Refused(f"there is no Holdfast cluster at {paths.root} yet: no node has ever joined it") from None
        raise Refused(f"a part of the cluster was deleted: {error}; the next node that looks makes it anew") from None
    nodes, problems = [], []
    for name in names:
        node = NodeId(name)
        try:
            nodes.append((node, decode(NodeRecord, (await client.get(paths.node(node))).data, where=paths.node(node))))
        except NoNode:
            continue  # it left while we looked
        except (Garbage, NewerSchema) as error:
            problems.append(str(error))
    return ClusterView(leader, epoch.stat.version, tuple(nodes), tuple(problems))
