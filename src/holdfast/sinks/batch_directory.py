"""A directory of batches: `batch=0`, `batch=1`, … for readers, and `_holdfast/` for those who write.

An attempt takes the directory by the next claim, `_holdfast/claim-N`. Then it moves away the staging directories of all
earlier claims. A batch becomes visible by being renamed out of the staging directory of its claim, after a look that
the claim is still the newest. So whoever was superseded either has renamed before its staging directory was moved, which its
successor sees, or finds nothing to rename. No clock is needed for that, only renames that are one step.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.sinks.batch_ledger import Owner, Recorded
from holdfast.sinks.hadoop_files import Folder
from holdfast.sinks.output_claim import Claim

FOLDER = "_holdfast"
RECORD = "_holdfast.json"
"""In each batch. Spark's readers pass over names that begin so."""
CLAIMS_KEPT = 20
OTHER_LOGS = ("_spark_metadata", "_delta_log")
"""By these, readers would not look at the batches at all."""
_BATCH = re.compile(r"batch=(\d{1,18})")
_CLAIM = re.compile(r"claim-(\d{1,18})")
_STAGING = re.compile(r"staging-(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch says of itself."""

    owner: Owner
    attempt: int
    id: int
    digest: str | None


@dataclass(frozen=True, slots=True)
class Look:
    """How the directory is found."""

    claim: Claim | None
    last: int | None
    """The number of the newest batch in this directory. Of an output that was adopted, not the batch's id."""
    written: Written | None
    """What that one says, if it says something."""
    others: tuple[str, ...] = ()
    """What else readers would see."""

    @property
    def next_number(self) -> int:
        return 0 if self.last is None else self.last + 1

    @property
    def next_id(self) -> int:
        assert self.claim is not None
        own = self.written is not None and self.written.owner == self.claim.owner
        return self.written.id + 1 if own and self.written is not None else self.claim.begins


class Directory:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def look(self) -> Look:
        names = self._folder.names()
        numbers = _numbers(names, _BATCH)
        last = max(numbers, default=None)
        others = [name for name in names if not _BATCH.fullmatch(name) and (name in OTHER_LOGS or name[0] not in "._")]
        return Look(
            claim=self._newest_claim(),
            last=last,
            written=self._written(last) if last is not None else None,
            others=tuple(sorted(others)),
        )

    def recorded(self, look: Look, batch_id: int) -> Recorded | None:
        """What a look means for a batch; None if there is nothing yet."""
        if look.claim is None:
            return None if look.last is None and not look.others else Recorded(None)
        digests: dict[int, str | None] = {}
        if look.last is not None and batch_id < look.next_id:
            before = self._written(look.last - (look.next_id - 1 - batch_id))
            if before is not None and (before.owner, before.id) == (look.claim.owner, batch_id):
                digests[batch_id] = before.digest
        return Recorded(look.claim.owner, look.claim.attempt, look.next_id, digests)

    # Taking it

    def take(self, claim: Claim) -> bool:
        """Whether this claim stands. If it does, nothing of an earlier one can become visible any more."""
        prepared, name = f"{FOLDER}/new-{claim.nonce}", _claim_name(claim.number)
        self._folder.write(f"{prepared}/claim.json", _encoded(claim))
        if not self._folder.exists(name):
            self._folder.rename(prepared, name)
        self._folder.remove(prepared)
        # Who comes second in a race finds his own inside the other's, or nowhere: what stands there now is who won.
        if self._claim(claim.number) != claim:
            return False
        names = self._folder.names(FOLDER)
        for number in _numbers(names, _STAGING):
            if number < claim.number:
                self._revoke(number, claim)
        for number in _numbers(names, _CLAIM):
            if number <= claim.number - CLAIMS_KEPT:
                self._folder.remove(_claim_name(number))
        return True

    def is_newest(self, claim: Claim) -> bool:
        return max(_numbers(self._folder.names(FOLDER), _CLAIM), default=0) <= claim.number

    def _revoke(self, number: int, claim: Claim) -> None:
        revoked = f"{FOLDER}/revoked-{number}-{claim.nonce}"
        self._folder.rename(f"{FOLDER}/staging-{number}", revoked)
        self._folder.remove(revoked)

    # Writing to it

    def staging(self, claim: Claim) -> str:
        return self._folder.uri(_staging_name(claim))

    def publish(self, claim: Claim, number: int, written: Written) -> bool:
        """Whether the batch that was staged is visible now."""
        staging, batch = _staging_name(claim), f"batch={number}"
        self._folder.write(f"{staging}/{RECORD}", _encoded(written))
        return self.is_newest(claim) and not self._folder.exists(batch) and self._folder.rename(staging, batch)

    # What stands in the files

    def _newest_claim(self) -> Claim | None:
        numbers = _numbers(self._folder.names(FOLDER), _CLAIM)
        return self._claim(max(numbers)) if numbers else None

    def _claim(self, number: int) -> Claim | None:
        fields = _decoded(self._folder.read(f"{_claim_name(number)}/claim.json"))
        return None if fields is None else Claim.of(fields)

    def _written(self, number: int) -> Written | None:
        fields = _decoded(self._folder.read(f"batch={number}/{RECORD}"))
        return None if fields is None else Written(**{**fields, "owner": Owner(**fields["owner"])})


def _claim_name(number: int) -> str:
    return f"{FOLDER}/claim-{number}"


def _staging_name(claim: Claim) -> str:
    return f"{FOLDER}/staging-{claim.number}/batch"


def _numbers(names: list[str], pattern: re.Pattern[str]) -> list[int]:
    return [int(match[1]) for name in names if (match := pattern.fullmatch(name)) is not None]


def _encoded(record: Claim | Written) -> str:
    return json.dumps(asdict(record))


def _decoded(text: str | None) -> dict[str, Any] | None:
    return None if text is None else dict(json.loads(text))
