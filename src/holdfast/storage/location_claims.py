"""Owner of a checkpoint location that a script names, recorded in `_holdfast/claim-N` at the location."""

import base64
import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.checkpoint.metadata_files import FOLDER
from holdfast.storage.claim_book import CheckpointClaim, name_claim
from holdfast.storage.location import check_location, parse_location
from holdfast.storage.location_claim_book import LocationClaimBook
from holdfast.storage.subprocesses.dispatch import STALL_TIMEOUT_S, location_claims_caller


@dataclass(frozen=True, slots=True)
class LocationOwner:
    """Newest claim of a location."""

    claim: CheckpointClaim
    file: str
    """Path of the claim, for messages."""
    ended: bool
    """True if the attempt has an outcome record: its processes are gone. The job may still have a next attempt."""


class LocationClaims:
    """Claims of one location, which need not exist yet. Its spelling is one that `checkpoint_location` returns."""

    def __init__(
        self,
        location: str,
        *,
        warn: Callable[[str], None],
        in_subprocess: bool = True,
        stall_timeout_s: float = STALL_TIMEOUT_S,
    ) -> None:
        """`warn` gets a sentence for each record that could not be read and is ignored."""
        check_location(location)
        self._display_name = parse_location(location).display_name
        self._call = location_claims_caller(
            parse_location(location), in_subprocess=in_subprocess, stall_timeout_s=stall_timeout_s, warn=warn
        )

    def claim(self, claim: CheckpointClaim, *, ended_owner: CheckpointClaim | None = None) -> LocationOwner | None:
        """Claim the location for an attempt. Return None on success, or the other job's claim that prevents it.

        Claims of the job of `ended_owner`, which has ended, are ignored. A claim with the same nonce may be repeated. Raises
        AlreadyClaimed if a later attempt or a concurrent process has claimed the location, and ForeignCheckpoint if its owner
        is unknown. After Unavailable, the claim may or may not exist.
        """
        ended = None if ended_owner is None else [ended_owner.cluster, ended_owner.job]
        return self._owner(self._call(LocationClaimBook.claim_location, fields=dataclasses.asdict(claim), ended_owner=ended))

    def read_owner(self) -> LocationOwner | None:
        """Return the newest readable claim."""
        return self._owner(self._call(LocationClaimBook.describe_claim))

    def write_outcome(self, claim: CheckpointClaim, outcome: dict[str, Any]) -> None:
        """Record that the attempt of this claim has ended. Does nothing if the attempt has no claim here."""
        data = base64.b64encode(json.dumps(outcome).encode()).decode()
        self._call(LocationClaimBook.write_location_outcome, fields=dataclasses.asdict(claim), data=data)

    def _owner(self, fields: dict[str, Any] | None) -> LocationOwner | None:
        if fields is None:
            return None
        file = f"{self._display_name}/{FOLDER}/{name_claim(fields['number'])}"
        return LocationOwner(CheckpointClaim(**fields["claim"]), file, bool(fields["ended"]))
