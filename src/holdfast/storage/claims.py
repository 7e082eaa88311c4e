"""Owner of a checkpoint and the attempts that have used it: `_holdfast/claim-N` and `_holdfast/outcome-N` in the checkpoint.

Claims remain when ZooKeeper has lost its data, and they separate clusters that share a file system. Leases prevent two drivers
of one job from running at the same time. Claims prevent two jobs from using one checkpoint and an attempt from running twice.
"""

import base64
import dataclasses
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.checkpoint import KnownQueries
from holdfast.checkpoint.metadata_files import KNOWN_QUERIES_FILE
from holdfast.model import codec
from holdfast.storage.claim_book import CheckpointClaim, ClaimBook
from holdfast.storage.location import check_location, parse_location
from holdfast.storage.subprocesses.dispatch import STALL_TIMEOUT_S, claims_caller


class AttemptOutcome(NamedTuple):
    attempt: int
    outcome: dict[str, Any]


class RecentOutcomes(NamedTuple):
    newest_claim: int
    """Attempt of the newest claim; 0 if there is none."""
    outcomes: dict[int, dict[str, Any]]


def _ignore(_sentence: str) -> None:
    pass


class Claims:
    """Claims in one checkpoint, which need not exist yet. Its location is one that `checkpoint_location` returns."""

    def __init__(
        self,
        checkpoint: str,
        *,
        warn: Callable[[str], None] = _ignore,
        in_subprocess: bool = True,
        stall_timeout_s: float = STALL_TIMEOUT_S,
    ) -> None:
        """`warn` gets a sentence for each record that could not be read and is ignored."""
        check_location(checkpoint)
        self._warn = warn
        self._call = claims_caller(
            parse_location(checkpoint), in_subprocess=in_subprocess, stall_timeout_s=stall_timeout_s, warn=warn
        )

    def claim(self, claim: CheckpointClaim) -> None:
        """Claim the checkpoint for an attempt. A claim with the same nonce may be repeated, for example after a lost reply.

        Raises AlreadyClaimed if this number or a higher one is used, and ForeignCheckpoint if another job owns the checkpoint.
        After Unavailable, the claim may or may not exist: repeat it, or continue with the next attempt.
        """
        self._call(ClaimBook.claim, fields=dataclasses.asdict(claim))

    def read_owner(self) -> CheckpointClaim | None:
        """Return the newest readable claim."""
        fields = self._call(ClaimBook.read_owner)
        return None if fields is None else CheckpointClaim(**fields)

    def list_attempts(self) -> list[int]:
        """Return the used attempt numbers in ascending order, at least the newest 50."""
        return list(self._call(ClaimBook.list_attempts))

    def write_outcome(self, attempt: int, outcome: dict[str, Any] | bytes) -> None:
        """Write the outcome of an attempt atomically. Replaces an earlier outcome of the same attempt."""
        data = outcome if isinstance(outcome, bytes) else json.dumps(outcome).encode()
        self._call(ClaimBook.write_outcome, attempt=attempt, data=base64.b64encode(data).decode())

    def read_outcome(self, attempt: int) -> dict[str, Any] | None:
        """Return the outcome of an attempt, or None if there is none. Warn about one that is not a JSON object."""
        outcome: dict[str, Any] | None = self._call(ClaimBook.read_outcome, attempt=attempt)
        return outcome

    def read_outcomes_since(self, claim: CheckpointClaim, first: int) -> RecentOutcomes:
        """Return the outcomes of the attempts from `first` on, before the attempt of this claim claims the checkpoint.

        Empty if another job owns the checkpoint. Warn about an outcome that is not a JSON object.
        """
        fields = dataclasses.asdict(claim)
        newest_claim, outcomes = self._call(ClaimBook.read_outcomes_since, fields=fields, first=first)
        return RecentOutcomes(newest_claim, {attempt: outcome for attempt, outcome in outcomes})

    def read_latest_outcome(self) -> AttemptOutcome | None:
        """Return the newest readable outcome. Later attempts may exist without an outcome."""
        latest = self._call(ClaimBook.read_latest_outcome)
        return None if latest is None else AttemptOutcome(*latest)

    def load_known_queries(self) -> KnownQueries | None:
        """Return the queries that earlier attempts recorded, or None. Warn about a record that cannot be read."""
        data: str | None = self._call(ClaimBook.read_metadata, name=KNOWN_QUERIES_FILE)
        try:
            return codec.decode(KnownQueries, data.encode(), where=KNOWN_QUERIES_FILE) if data is not None else None
        except (codec.MalformedRecord, codec.NewerSchema) as error:
            self._warn(str(error))
            return None

    def save_known_queries(self, known: KnownQueries) -> None:
        self._call(ClaimBook.write_metadata, name=KNOWN_QUERIES_FILE, data=codec.encode(known).decode())

    def read_metadata(self, name: str) -> bytes | None:
        """Return the content of a metadata file of `claim_book.METADATA_BYTES_MAX`, or None if it does not exist."""
        data: str | None = self._call(ClaimBook.read_metadata, name=name)
        return data.encode() if data is not None else None

    def write_metadata(self, name: str, data: bytes) -> None:
        """Replace a metadata file atomically. Raises Refused if it is too large."""
        self._call(ClaimBook.write_metadata, name=name, data=data.decode())

    def remove_metadata(self, name: str) -> None:
        self._call(ClaimBook.remove_metadata, name=name)
