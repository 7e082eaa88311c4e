"""Claim of a writer on an output. Pure.

Claim numbers grow across attempts and owners. Only the holder of the newest claim may write; each kind of output enforces this
in its own way.
"""

from dataclasses import dataclass
from typing import Any

from holdfast.sinks.batch_ledger import BatchIdentity, Owner


@dataclass(frozen=True, slots=True)
class OutputClaim:
    number: int
    owner: Owner
    attempt: int
    nonce: str
    """Random id of the sink that made the claim."""
    begins: int
    """First batch id of this owner in the output."""

    @staticmethod
    def next_after(newest: "OutputClaim | None", batch: BatchIdentity, nonce: str) -> "OutputClaim":
        """Return the claim with which the batch's attempt takes over from the newest claim."""
        own = newest is not None and newest.owner == batch.owner
        return OutputClaim(
            number=newest.number + 1 if newest is not None else 1,
            owner=batch.owner,
            attempt=batch.attempt,
            nonce=nonce,
            begins=newest.begins if own and newest is not None else batch.id,
        )

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> "OutputClaim":
        return OutputClaim(**{**fields, "owner": Owner(**fields["owner"])})
