"""What nodes and leaders write into znodes about themselves."""

from dataclasses import dataclass

from holdfast.model.identifiers import Epoch, NodeId


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Who won the epoch. The number itself is the version of the znode, which no data can change."""

    leader: NodeId
    contender: str


@dataclass(frozen=True, slots=True)
class BeatRecord:
    """The leader's sign of life. The count is the version of the znode."""

    leader: NodeId
    epoch: Epoch
    wall_s: float


@dataclass(frozen=True, slots=True)
class NodeRecord:
    slots: int
    address: str
    version: str
    newest_schema: int


@dataclass(frozen=True, slots=True)
class QuarantineRecord:
    """Why a job was set aside, and the bytes that could not be read."""

    reason: str
    part: str
    """Which part of the job could not be read; empty if one is missing or was put back by hand."""
    wall: float
    epoch: Epoch
    original: str
    """That part as it was, in Base64."""
