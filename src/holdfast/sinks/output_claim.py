"""Who writes to an output now. Pure.

A claim has a number that only grows, across attempts and owners. Whoever holds the newest one writes; how all others are
kept out is each output's own affair.
"""

from dataclasses import dataclass
from typing import Any

from holdfast.sinks.batch_ledger import Batch, Owner


@dataclass(frozen=True, slots=True)
class Claim:
    number: int
    owner: Owner
    attempt: int
    nonce: str
    """Of the sink that made it."""
    begins: int
    """The batch with which this owner began."""

    @staticmethod
    def after(newest: "Claim | None", batch: Batch, nonce: str) -> "Claim":
        """The one with which this batch's attempt takes over."""
        own = newest is not None and newest.owner == batch.owner
        return Claim(
            number=newest.number + 1 if newest is not None else 1,
            owner=batch.owner,
            attempt=batch.attempt,
            nonce=nonce,
            begins=newest.begins if own and newest is not None else batch.id,
        )

    @staticmethod
    def of(fields: dict[str, Any]) -> "Claim":
        return Claim(**{**fields, "owner": Owner(**fields["owner"])})
