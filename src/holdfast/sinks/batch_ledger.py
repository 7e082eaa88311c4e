"""Decision whether a batch is written, skipped or refused, based on the record in its output. Pure.

Invariant: only the owner of an output writes to it, no attempt older than the newest recorded one writes, and each batch
follows its predecessor. Batch ids are therefore contiguous, and each batch occurs once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

GENERATION_BITS = 32
"""Width of the attempt number in a fencing token. The bits above it count the preceding jobs of the lineage."""
UNOWNED = "nobody"
"""Value of `adopt` for an output without a recorded owner."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of an output. It includes the query, because batch ids are unique only within one checkpoint."""

    job: str
    """First job of the lineage; empty without Holdfast."""
    query: str
    """Spark's query id, which is stored in the checkpoint."""

    def __str__(self) -> str:
        return f"{self.job}/{self.query}" if self.job else self.query


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """Batch that a sink is asked to write."""

    owner: Owner
    attempt: int
    """Fencing token of the attempt."""
    id: int
    digest: str | None
    """Digest of the batch's offsets, or None if they could not be read."""


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """Record of an existing output."""

    owner: Owner | None
    """None if the output has no recorded owner."""
    attempt: int = 0
    """Fencing token of the newest attempt that has written or is about to write."""
    next_id: int = 0
    digests: Mapping[int, str | None] = field(default_factory=dict)
    """Digests of the recorded batches before `next_id`; old ones may be missing."""


@dataclass(frozen=True, slots=True)
class WriteBatch:
    adopts: bool = False
    """True if the output belonged to another owner, or if its first batches were written elsewhere."""


@dataclass(frozen=True, slots=True)
class SkipBatch:
    """Decision to skip the batch: the output contains it already."""


@dataclass(frozen=True, slots=True)
class SupersededBy:
    """Refusal: a newer attempt has taken over the output."""

    by: int


@dataclass(frozen=True, slots=True)
class OwnedByOther:
    """Refusal: the output belongs to another owner, or contains data without an owner."""

    owner: Owner | None


@dataclass(frozen=True, slots=True)
class BatchGap:
    """Refusal: batches before this one are missing in the output."""

    next_id: int


@dataclass(frozen=True, slots=True)
class DifferentInput:
    """Refusal: the output contains a batch with this id, but of different input."""


@dataclass(frozen=True, slots=True)
class BatchForgotten:
    """Refusal: the output contains later batches, and the digest of this one is deleted."""


Refusal = SupersededBy | OwnedByOther | BatchGap | DifferentInput | BatchForgotten
Decision = WriteBatch | SkipBatch | Refusal


def decide_batch(recorded: OutputRecord | None, batch: BatchIdentity, adopt: str | None = None) -> Decision:
    """Decide about a batch. `recorded` is None for a new output; `adopt` names the owner whose output may be continued."""
    if recorded is None:
        if batch.id == 0:
            return WriteBatch()
        return WriteBatch(adopts=True) if adopt == UNOWNED else BatchGap(0)
    if recorded.owner != batch.owner:
        adopted = adopt == (UNOWNED if recorded.owner is None else str(recorded.owner))
        return WriteBatch(adopts=True) if adopted else OwnedByOther(recorded.owner)
    if recorded.attempt > batch.attempt:
        return SupersededBy(recorded.attempt)
    if batch.id < recorded.next_id:
        return _decide_repeated(recorded, batch)
    return WriteBatch() if batch.id == recorded.next_id else BatchGap(recorded.next_id)


def _decide_repeated(recorded: OutputRecord, batch: BatchIdentity) -> Decision:
    if batch.id not in recorded.digests:
        return BatchForgotten()
    digest = recorded.digests[batch.id]
    same = digest is None or batch.digest is None or digest == batch.digest
    return SkipBatch() if same else DifferentInput()
