"""Epoch record: the leader of the current epoch and its contender in the election queue."""

import functools
import re

from holdfast.errors import Refused
from holdfast.model.codec import MalformedRecord, NewerSchema, decode
from holdfast.model.epoch_record import EpochRecord
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.paths import CONTENDER_PREFIX, Paths
from holdfast.zk.session.reader import NoNode, Reader, Znode

CONTENDERS_KEPT_MAX = 1024
"""Number of contenders whose position is kept. Each pass of an agent compares the same few names."""
_SEQUENCE = re.compile(r"[\w-]+-(\d{10})", re.ASCII)


def decode_epoch(paths: Paths, znode: Znode) -> EpochRecord | None:
    """Return the epoch record, or None if there is none yet or this version cannot read it: the next leader overwrites it."""
    if not znode.data:
        return None
    try:
        return decode(EpochRecord, znode.data, where=paths.epoch)
    except (MalformedRecord, NewerSchema):
        return None


async def read_leader_and_nodes(client: Reader, paths: Paths) -> tuple[NodeId | None, int, list[NodeId]]:
    """Return the leader, the epoch and the ids of the nodes. Raises Refused if the cluster does not exist or is incomplete.

    The leader is None if the leader of the current epoch is gone and no other node has taken the next epoch.
    """
    try:
        epoch = await client.get(paths.epoch)
        record = decode_epoch(paths, epoch)
        leader = None
        if record is not None and is_contender(record.contender):
            stat = await client.exists(paths.contender(record.contender))
            leader = record.leader if stat is not None and stat.ephemeral_owner != 0 else None
        nodes = sorted(map(NodeId, await client.children(paths.nodes)))
    except NoNode as error:
        if str(error).startswith(paths.epoch):
            raise Refused(f"there is no Holdfast cluster at {paths.root} yet: no node has ever joined it") from None
        raise Refused(
            f"the cluster at {paths.root} is incomplete: {error}; a running node recreates the missing znode"
        ) from None
    return leader, epoch.stat.version, nodes


def is_contender(name: str) -> bool:
    return sequence_number(name) < float("inf")


@functools.lru_cache(CONTENDERS_KEPT_MAX)
def sequence_number(name: str) -> float:
    """Return the position in the election queue; infinity for a znode that no contender created."""
    match = _SEQUENCE.fullmatch(name)
    return int(match[1]) if match and name.startswith(CONTENDER_PREFIX) else float("inf")
