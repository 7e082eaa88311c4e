"""Whose checkpoint it is and which attempts have used it: `_holdfast/claim-N` and `_holdfast/outcome-N` in the checkpoint.

This is what is left to go by when ZooKeeper has forgotten, and what keeps two clusters that share a file system apart. Leases
keep two drivers of one job apart; claims keep two jobs apart, and an attempt from being run a second time.
"""

import base64
import dataclasses
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.checkpoint import Known
from holdfast.model import codec
from holdfast.storage.claim_book import FOLDER, QUERIES, Claim
from holdfast.storage.dispatch import SILENCE_S, caller
from holdfast.storage.location import parse, validate


class Ended(NamedTuple):
    attempt: int
    outcome: dict[str, Any]


def _unsaid(_sentence: str) -> None:
    pass


class Claims:
    """The claims in one checkpoint, spelled as `location.in_storage` gives it. It need not exist yet."""

    def __init__(
        self, checkpoint: str, *, note: Callable[[str], None] = _unsaid, apart: bool = True, silence_s: float = SILENCE_S
    ) -> None:
        """`note` is told, in a sentence each, what could not be read and was passed over."""
        validate(checkpoint)
        self._note = note
        self._call = caller(parse(checkpoint), FOLDER, apart=apart, silence_s=silence_s, note=note)

    def claim(self, claim: Claim) -> None:
        """Take the checkpoint for this attempt. The same claim with the same nonce may be made again, as after a lost reply.

        Raises Claimed if this number or a higher one is taken, and ForeignCheckpoint if the checkpoint is not this job's.
        Unavailable leaves it open whether the claim stands: repeat it, or go on to the next attempt.
        """
        self._call("claim", **dataclasses.asdict(claim))

    def owner(self) -> Claim | None:
        """Who holds the newest claim that can be read."""
        fields = self._call("owner")
        return None if fields is None else Claim(**fields)

    def attempts(self) -> list[int]:
        """The numbers that are known to be used, in order; the newest 50 at least."""
        return list(self._call("attempts"))

    def leave_outcome(self, attempt: int, outcome: dict[str, Any] | bytes) -> None:
        """Whole or not at all; in place of an earlier one of the same attempt."""
        data = outcome if isinstance(outcome, bytes) else json.dumps(outcome).encode()
        self._call("leave_outcome", attempt=attempt, data=base64.b64encode(data).decode())

    def outcome(self, attempt: int) -> dict[str, Any] | None:
        """How an attempt ended, if it has left that. What is no JSON object is noted and counts as none."""
        found: dict[str, Any] | None = self._call("outcome", attempt=attempt)
        return found

    def latest(self) -> Ended | None:
        """The newest outcome that can be read, and its attempt. There may be later attempts that left none."""
        found = self._call("latest")
        return None if found is None else Ended(*found)

    def queries(self) -> Known | None:
        """What earlier attempts have left about the job's queries. What cannot be read is noted and counts as none."""
        data: str | None = self._call("note", name=QUERIES)
        try:
            return codec.decode(Known, data.encode(), where="queries.json") if data is not None else None
        except (codec.Garbage, codec.NewerSchema) as error:
            self._note(str(error))
            return None

    def leave_queries(self, known: Known) -> None:
        self._call("leave_note", name=QUERIES, data=codec.encode(known).decode())

    def note(self, name: str) -> bytes | None:
        """What else is kept beside the claims: one of `claim_book.NOTES`. Whoever left it knows what it says."""
        data: str | None = self._call("note", name=name)
        return data.encode() if data is not None else None

    def leave_note(self, name: str, data: bytes) -> None:
        """Whole or not at all, in place of what was there."""
        self._call("leave_note", name=name, data=data.decode())

    def drop_note(self, name: str) -> None:
        self._call("drop_note", name=name)
