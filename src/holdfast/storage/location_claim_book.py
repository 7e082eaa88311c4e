"""Claims of a checkpoint location that a script names: a location that several jobs can use, one after the other.

The root of a job's checkpoints belongs to that job forever, so its claims carry the attempt numbers of one job. Attempts of
different jobs cannot be compared. So claims here are numbered across owners: a new claim gets the next free number, and at
least the attempt number, which keeps the names of a location with a single owner equal to those of a root.
"""

import base64
import contextlib
import dataclasses
from typing import Any

from holdfast.model import codec
from holdfast.storage.claim_book import (
    EMPTY_CLAIM,
    RECORD_BYTES_MAX,
    UNREADABLE_CLAIM,
    CheckpointClaim,
    ClaimBook,
    list_claim_numbers,
    list_outcome_numbers,
    name_claim,
    name_outcome,
)
from holdfast.storage.filesystem.folder import Folder
from holdfast.storage.storage_errors import AlreadyClaimed, FolderMissing


class LocationClaimBook(ClaimBook):
    """Operations on the claims of one location. It reports the owner; the caller decides whether that job has ended."""

    def claim_location(self, fields: dict[str, Any], ended_owner: list[str] | None) -> dict[str, Any] | None:
        """Claim the location. Return None, or the claim of the job that owns it (see `describe_claim`).

        `fields` are those of a CheckpointClaim. `ended_owner` is the cluster and the id of a job that has ended: its claims
        do not count. Raises AlreadyClaimed if a later attempt of this job or a concurrent process has claimed the location,
        and ForeignCheckpoint if no claim names the owner.
        """
        claim = CheckpointClaim(**fields)
        with self._open(True) as folder:
            claims = self._read_claims(folder)
            newest = _newest(claims)
            if newest is not None and not newest[1].is_same_job(claim):
                if [newest[1].cluster, newest[1].job] != ended_owner:
                    return _describe(folder, *newest)
            elif self._is_claimed(claim, claims):
                return None
            number = self._create(folder, claim, claims)
            concurrent = self._read_claims(folder).keys() - claims.keys() - {number}
            if concurrent:
                folder.remove(name_claim(number))
                raise self._concurrent_claim()
            self._prune(folder)
        return None

    def describe_claim(self) -> dict[str, Any] | None:
        """Return the newest readable claim: `claim` (its fields), `number`, and `ended` if it has an outcome record."""
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            newest = _newest(self._read_claims(folder))
            return _describe(folder, *newest) if newest is not None else None
        return None

    def write_location_outcome(self, fields: dict[str, Any], data: str) -> None:
        """Write the outcome (base64) of the attempt that these fields of a claim describe. Without such a claim, do nothing."""
        claim = CheckpointClaim(**fields)
        with self._open(True) as folder:
            number = next((number for number, other in self._read_claims(folder).items() if other == claim), None)
            if number is not None:
                with folder.open_writer(name_outcome(number)) as write:
                    write(memoryview(base64.b64decode(data)[:RECORD_BYTES_MAX]))

    def _read_claims(self, folder: Folder) -> dict[int, object]:
        """Return all claims by their number. Outcomes without a claim use up their number too."""
        claims: dict[int, object] = {number: EMPTY_CLAIM for number in list_outcome_numbers(folder)}
        return claims | {number: self._read_claim(folder, number, any_attempt=True) for number in list_claim_numbers(folder)}

    def _is_claimed(self, claim: CheckpointClaim, claims: dict[int, object]) -> bool:
        """Return True if exactly this claim is the newest. Raises AlreadyClaimed and ForeignCheckpoint."""
        newest = _newest(claims)
        if newest is None:
            if any(other is UNREADABLE_CLAIM for other in claims.values()):
                self._check_owner(claim, claims.values())
            return False
        if newest[1] == claim:
            return True
        if newest[1].attempt >= claim.attempt:
            raise AlreadyClaimed(
                f"cannot claim {self._display_name} for attempt {claim.attempt}: "
                f"attempt {newest[1].attempt} has already claimed it"
            )
        return False

    def _create(self, folder: Folder, claim: CheckpointClaim, claims: dict[int, object]) -> int:
        number = max(claim.attempt, max(claims, default=0) + 1)
        if not folder.create(name_claim(number), codec.encode(claim)):
            raise self._concurrent_claim()
        return number

    def _concurrent_claim(self) -> AlreadyClaimed:
        return AlreadyClaimed(f"cannot claim {self._display_name}: another process is claiming it")


def _newest(claims: dict[int, object]) -> tuple[int, CheckpointClaim] | None:
    readable = [(number, claim) for number, claim in claims.items() if isinstance(claim, CheckpointClaim)]
    return max(readable, key=lambda each: each[0], default=None)


def _describe(folder: Folder, number: int, claim: CheckpointClaim) -> dict[str, Any]:
    ended = folder.stat(name_outcome(number)) is not None
    return {"claim": dataclasses.asdict(claim), "number": number, "ended": ended}
