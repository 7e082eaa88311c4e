"""Whether a batch is to be written, from what its output says of itself. Pure.

The invariant: a batch is written only by the owner of the output, by no attempt older than the newest that was there, and only
right after the batch before it. So batch ids are contiguous, and each batch is there once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

GENERATION_BITS = 32
"""Above these, the number of an attempt says how many jobs were there before its own, each going on from the one before."""
NOBODY = "nobody"
"""How `adopt` names the owner of an output that does not say whose it is."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose batches an output holds. The query is in it because batch ids count within one checkpoint."""

    job: str
    """Empty if nobody supervises."""
    query: str
    """Spark's id of the query, which its checkpoint keeps."""

    def __str__(self) -> str:
        return f"{self.job}/{self.query}" if self.job else self.query


@dataclass(frozen=True, slots=True)
class Batch:
    owner: Owner
    attempt: int
    id: int
    digest: str | None
    """Of the offsets that the batch covers; None if they could not be read."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What an output that exists says of itself."""

    owner: Owner | None
    """None if it does not say."""
    attempt: int = 0
    """The newest that has written to it or is about to."""
    next_id: int = 0
    digests: Mapping[int, str | None] = field(default_factory=dict)
    """Of batches before the next; those that are known still."""


@dataclass(frozen=True, slots=True)
class Write:
    adopts: bool = False
    """Whether the output was somebody else's, or its first batches went elsewhere."""


@dataclass(frozen=True, slots=True)
class Skip:
    """It took effect before a crash."""


@dataclass(frozen=True, slots=True)
class Superseded:
    by: int


@dataclass(frozen=True, slots=True)
class Foreign:
    owner: Owner | None


@dataclass(frozen=True, slots=True)
class Gap:
    next_id: int


@dataclass(frozen=True, slots=True)
class Different:
    """The batch is there, but it covers something else."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The output has come further, and cannot say any more what this batch was."""


Refusal = Superseded | Foreign | Gap | Different | Forgotten
Decision = Write | Skip | Refusal


def decide(recorded: Recorded | None, batch: Batch, adopt: str | None = None) -> Decision:
    """`recorded` is None for an output that does not exist. `adopt` names the owner whose output may be continued."""
    if recorded is None:
        if batch.id == 0:
            return Write()
        return Write(adopts=True) if adopt == NOBODY else Gap(0)
    if recorded.owner != batch.owner:
        adopted = adopt == (NOBODY if recorded.owner is None else str(recorded.owner))
        return Write(adopts=True) if adopted else Foreign(recorded.owner)
    if recorded.attempt > batch.attempt:
        return Superseded(recorded.attempt)
    if batch.id < recorded.next_id:
        return _repeated(recorded, batch)
    return Write() if batch.id == recorded.next_id else Gap(recorded.next_id)


def _repeated(recorded: Recorded, batch: Batch) -> Decision:
    if batch.id not in recorded.digests:
        return Forgotten()
    before = recorded.digests[batch.id]
    same = before is None or batch.digest is None or before == batch.digest
    return Skip() if same else Different()
