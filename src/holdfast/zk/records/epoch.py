"""Epoch record: the leader of the current epoch and its contender in the election queue."""

import re

from holdfast.model.cluster_records import EpochRecord
from holdfast.model.codec import MalformedRecord, decode
from holdfast.zk.records.paths import CONTENDER_PREFIX, Paths
from holdfast.zk.session.client import Znode

_SEQUENCE = re.compile(r"[\w-]+-(\d{10})", re.ASCII)


def decode_epoch(paths: Paths, znode: Znode) -> EpochRecord | None:
    """Return the epoch record, or None if there is none yet or it is malformed: the next leader overwrites it.

    Raises NewerSchema.
    """
    if not znode.data:
        return None
    try:
        return decode(EpochRecord, znode.data, where=paths.epoch)
    except MalformedRecord:
        return None


def is_contender(name: str) -> bool:
    return sequence_number(name) < float("inf")


def sequence_number(name: str) -> float:
    """Return the position in the election queue; infinity for a znode that no contender created."""
    match = _SEQUENCE.fullmatch(name)
    return int(match[1]) if match and name.startswith(CONTENDER_PREFIX) else float("inf")
