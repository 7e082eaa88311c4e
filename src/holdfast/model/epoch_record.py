"""Znode record of an epoch. Separate module: `holdfast ls` needs no other record of the cluster."""

from dataclasses import dataclass

from holdfast.model.identifiers import NodeId


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Winner of an epoch. The epoch number is the version of the znode, which is independent of its bytes."""

    leader: NodeId
    contender: str
