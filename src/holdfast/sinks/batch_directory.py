"""Output directory of batches: `batch=0`, `batch=1`, … for readers, and `_holdfast/` for writers.

An attempt acquires the directory with the next claim, `_holdfast/claim-N`, and then moves away the staging directories of all
earlier claims. A writer publishes a batch by renaming it out of its claim's staging directory, after it has checked that its
claim is still the newest. A superseded writer therefore either has renamed before its staging directory was moved, so its
successor sees the batch, or finds nothing to rename. This requires atomic renames, but no clock.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.sinks.batch_ledger import OutputRecord, Owner
from holdfast.sinks.hadoop_files import HadoopFolder
from holdfast.sinks.output_claim import OutputClaim

METADATA_FOLDER = "_holdfast"
RECORD_FILE = "_holdfast.json"
"""Record in each batch directory. Spark's readers ignore names that start with an underscore."""
CLAIMS_KEPT = 20
OTHER_LOGS = ("_spark_metadata", "_delta_log")
"""Log folders of other writers. In their presence readers ignore the batches."""
_BATCH = re.compile(r"batch=(\d{1,18})")
_CLAIM = re.compile(r"claim-(\d{1,18})")
_STAGING = re.compile(r"staging-(\d{1,18})")


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """Record of a written batch."""

    owner: Owner
    attempt: int
    id: int
    digest: str | None


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """State of the directory at one moment."""

    claim: OutputClaim | None
    last_number: int | None
    """Number of the newest batch directory. It differs from the batch id in an adopted output."""
    last_record: BatchRecord | None
    """Record of the newest batch, or None if it has none."""
    foreign_names: tuple[str, ...] = ()
    """Other names that readers would see."""

    @property
    def next_number(self) -> int:
        return 0 if self.last_number is None else self.last_number + 1

    @property
    def next_id(self) -> int:
        assert self.claim is not None
        own = self.last_record is not None and self.last_record.owner == self.claim.owner
        return self.last_record.id + 1 if own and self.last_record is not None else self.claim.begins


class BatchDirectory:
    """Output directory with claims, staging directories and published batches."""

    def __init__(self, folder: HadoopFolder) -> None:
        self._folder = folder

    def read_state(self) -> DirectoryState:
        names = self._folder.list_names()
        numbers = _numbers(names, _BATCH)
        last = max(numbers, default=None)
        others = [name for name in names if not _BATCH.fullmatch(name) and (name in OTHER_LOGS or name[0] not in "._")]
        return DirectoryState(
            claim=self._newest_claim(),
            last_number=last,
            last_record=self._read_batch_record(last) if last is not None else None,
            foreign_names=tuple(sorted(others)),
        )

    def output_record(self, state: DirectoryState, batch_id: int) -> OutputRecord | None:
        """Return the record for the decision about a batch, or None for an empty output."""
        if state.claim is None:
            return None if state.last_number is None and not state.foreign_names else OutputRecord(None)
        digests: dict[int, str | None] = {}
        if state.last_number is not None and batch_id < state.next_id:
            record = self._read_batch_record(state.last_number - (state.next_id - 1 - batch_id))
            if record is not None and (record.owner, record.id) == (state.claim.owner, batch_id):
                digests[batch_id] = record.digest
        return OutputRecord(state.claim.owner, state.claim.attempt, state.next_id, digests)

    # Acquire

    def acquire(self, claim: OutputClaim) -> bool:
        """Try to make this the newest claim. After True, no batch of an earlier claim can become visible."""
        prepared, name = f"{METADATA_FOLDER}/new-{claim.nonce}", _claim_name(claim.number)
        self._folder.write(f"{prepared}/claim.json", _encode(claim))
        if not self._folder.exists(name):
            self._folder.rename(prepared, name)
        self._folder.remove(prepared)
        # The loser of a race renames its claim into the winner's directory, or fails to rename it. The file names the winner.
        if self._read_claim(claim.number) != claim:
            return False
        names = self._folder.list_names(METADATA_FOLDER)
        for number in _numbers(names, _STAGING):
            if number < claim.number:
                self._revoke(number, claim)
        for number in _numbers(names, _CLAIM):
            if number <= claim.number - CLAIMS_KEPT:
                self._folder.remove(_claim_name(number))
        return True

    def is_newest(self, claim: OutputClaim) -> bool:
        return max(_numbers(self._folder.list_names(METADATA_FOLDER), _CLAIM), default=0) <= claim.number

    def _revoke(self, number: int, claim: OutputClaim) -> None:
        revoked = f"{METADATA_FOLDER}/revoked-{number}-{claim.nonce}"
        self._folder.rename(f"{METADATA_FOLDER}/staging-{number}", revoked)
        self._folder.remove(revoked)

    # Write

    def staging_uri(self, claim: OutputClaim) -> str:
        return self._folder.uri(_staging_name(claim))

    def publish(self, claim: OutputClaim, number: int, written: BatchRecord) -> bool:
        """Make the staged batch visible. Return False if another claim is newer or the batch exists."""
        staging, batch = _staging_name(claim), f"batch={number}"
        self._folder.write(f"{staging}/{RECORD_FILE}", _encode(written))
        return self.is_newest(claim) and not self._folder.exists(batch) and self._folder.rename(staging, batch)

    # Read

    def _newest_claim(self) -> OutputClaim | None:
        numbers = _numbers(self._folder.list_names(METADATA_FOLDER), _CLAIM)
        return self._read_claim(max(numbers)) if numbers else None

    def _read_claim(self, number: int) -> OutputClaim | None:
        fields = _decode(self._folder.read(f"{_claim_name(number)}/claim.json"))
        return None if fields is None else OutputClaim.from_fields(fields)

    def _read_batch_record(self, number: int) -> BatchRecord | None:
        fields = _decode(self._folder.read(f"batch={number}/{RECORD_FILE}"))
        return None if fields is None else BatchRecord(**{**fields, "owner": Owner(**fields["owner"])})


def _claim_name(number: int) -> str:
    return f"{METADATA_FOLDER}/claim-{number}"


def _staging_name(claim: OutputClaim) -> str:
    return f"{METADATA_FOLDER}/staging-{claim.number}/batch"


def _numbers(names: list[str], pattern: re.Pattern[str]) -> list[int]:
    return [int(match[1]) for name in names if (match := pattern.fullmatch(name)) is not None]


def _encode(record: OutputClaim | BatchRecord) -> str:
    return json.dumps(asdict(record))


def _decode(text: str | None) -> dict[str, Any] | None:
    return None if text is None else dict(json.loads(text))
