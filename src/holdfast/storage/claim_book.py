"""Claims, outcomes and metadata in the folder `_holdfast` of one checkpoint, in this process.

A claim is created exclusively, and it is complete and on disk before its attempt starts a driver. For claims that cannot be
read, this means:
- The number of such a claim is used and is never assigned again.
- An empty claim, or one that contains only zeros, was never completed, so its attempt has started nothing. It has no owner.
- Any other malformed claim has no owner either. The readable claims determine the owner of the checkpoint. If there are none,
  the owner is unknown, and the checkpoint is refused until a user decides.
- A claim with a newer schema is not malformed: only a newer node can read it.

Arguments and results are JSON values, because a call may come from another process (see `dispatch`).
"""

import base64
import contextlib
import dataclasses
import json
import re
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from holdfast.checkpoint.metadata_files import (
    FOLDER,
    KAFKA_CHOICE_FILE,
    KAFKA_LAST_KNOWN_FILE,
    KAFKA_PARK_FINDINGS_FILE,
    KNOWN_QUERIES_FILE,
)
from holdfast.errors import Refused, Unavailable
from holdfast.model import codec
from holdfast.storage.filesystem.folder import Folder, OpenFolder
from holdfast.storage.storage_errors import AlreadyClaimed, FolderMissing, ForeignCheckpoint, NotAFile

KEPT_ATTEMPTS = 50
RECORD_BYTES_MAX = 256 << 10
KAFKA_RECORD_BYTES_MAX = 8 << 20
"""Enough for about 80,000 partitions, at 100 bytes each."""
METADATA_BYTES_MAX = {
    KNOWN_QUERIES_FILE: RECORD_BYTES_MAX,
    KAFKA_LAST_KNOWN_FILE: KAFKA_RECORD_BYTES_MAX,
    KAFKA_PARK_FINDINGS_FILE: KAFKA_RECORD_BYTES_MAX,
    KAFKA_CHOICE_FILE: KAFKA_RECORD_BYTES_MAX,
}
"""Metadata files beside the claims, and the maximum size of each."""
LEFTOVER_AGE_S = 86400.0
_CLAIM = re.compile("claim-([1-9][0-9]{0,17})")
_OUTCOME = re.compile("outcome-([1-9][0-9]{0,17})")


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointClaim:
    """Content of a claim file. Its field names are part of the file format."""

    cluster: str
    job: str
    attempt: int
    node: str
    nonce: str

    def is_same_job(self, other: "CheckpointClaim") -> bool:
        return (self.cluster, self.job) == (other.cluster, other.job)


class ClaimBook:
    """Operations on the claims of one checkpoint."""

    def __init__(self, open_folder: OpenFolder, display_name: str, warn: Callable[[str], None]) -> None:
        self._open = open_folder
        self._display_name = display_name
        self._warn = warn

    def claim(self, fields: dict[str, Any]) -> None:
        """Create a claim from the fields of a CheckpointClaim. Raises AlreadyClaimed and ForeignCheckpoint.

        The first check keeps the checkpoints of other jobs untouched. The check after the creation detects a concurrent claim:
        the later of two creators sees the claim of the earlier one, so at most one of them succeeds.
        """
        claim = CheckpointClaim(**fields)
        name = name_claim(claim.attempt)
        with self._open(True) as folder:
            exists = self._check(folder, claim) or folder.create(name, codec.encode(claim)) or self._check(folder, claim)
            if not exists:
                raise AlreadyClaimed(
                    f"cannot claim {self._display_name} for attempt {claim.attempt}: another process is claiming it"
                )
            try:
                self._check(folder, claim)
            except (AlreadyClaimed, ForeignCheckpoint):
                folder.remove(name)
                raise
            self._prune(folder)

    def read_owner(self) -> dict[str, Any] | None:
        """Return the fields of the newest readable claim."""
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            claim = self._find_newest_claim(folder, _list_numbers(folder, _CLAIM))
            return dataclasses.asdict(claim) if claim is not None else None
        return None

    def list_attempts(self) -> list[int]:
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            return sorted({*_list_numbers(folder, _CLAIM), *_list_numbers(folder, _OUTCOME)})
        return []

    def write_outcome(self, attempt: int, data: str) -> None:
        """Write an outcome, which is passed as base64."""
        content = base64.b64decode(data)
        if len(content) > RECORD_BYTES_MAX:
            raise Refused(f"the outcome is too large: it has {len(content)} bytes, and at most {RECORD_BYTES_MAX} are allowed")
        with self._open(True) as folder, folder.open_writer(name_outcome(attempt)) as write:
            write(memoryview(content))

    def read_outcome(self, attempt: int) -> dict[str, Any] | None:
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            return self._read_outcome(folder, attempt)
        return None

    def read_outcomes_since(self, fields: dict[str, Any], first: int) -> tuple[int, list[tuple[int, dict[str, Any]]]]:
        """Return the newest earlier claim (0 if none) and the outcomes of attempts from `first` on, before an attempt claims.

        `fields` are those of its CheckpointClaim. If another job owns the checkpoint, its outcomes are not returned.
        """
        claim = CheckpointClaim(**fields)
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            names = [entry.name for entry in folder.entries()]
            claims = [number for number in _select_numbers(names, _CLAIM) if number < claim.attempt]
            attempts = [number for number in _select_numbers(names, _OUTCOME) if first <= number < claim.attempt]
            owner = self._find_newest_claim(folder, claims) if attempts else None
            if owner is not None and owner.is_same_job(claim):
                outcomes = [(attempt, self._read_outcome(folder, attempt)) for attempt in attempts]
                return claims[-1], [(attempt, outcome) for attempt, outcome in outcomes if outcome is not None]
        return 0, []

    def read_latest_outcome(self) -> tuple[int, dict[str, Any]] | None:
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            for attempt in reversed(_list_numbers(folder, _OUTCOME)):
                outcome = self._read_outcome(folder, attempt)
                if outcome is not None:
                    return attempt, outcome
        return None

    def read_metadata(self, name: str) -> str | None:
        """Return the content of a metadata file, or None if it does not exist or is not a plain file."""
        limit = METADATA_BYTES_MAX[name]
        with contextlib.suppress(FolderMissing, NotAFile), self._open(False) as folder:
            data = folder.read(name, limit)
            return data.decode(errors="replace") if data is not None else None
        return None

    def write_metadata(self, name: str, data: str) -> None:
        """Replace a metadata file atomically. Raises Refused if it is too large."""
        if len(data.encode()) > METADATA_BYTES_MAX[name]:
            raise Refused(
                f"{name} is too large: it has {len(data.encode())} bytes, and at most {METADATA_BYTES_MAX[name]} are allowed"
            )
        with self._open(True) as folder, folder.open_writer(name) as write:
            write(memoryview(data.encode()))

    def remove_metadata(self, name: str) -> None:
        if name in METADATA_BYTES_MAX:
            with contextlib.suppress(FolderMissing), self._open(False) as folder:
                folder.remove(name)

    def _check(self, folder: Folder, claim: CheckpointClaim) -> bool:
        """Return True if exactly this claim exists. Raises AlreadyClaimed or ForeignCheckpoint if it may not be created."""
        numbers = _list_numbers(folder, _CLAIM)
        claims = {number: self._read_claim(folder, number) for number in numbers}
        self._check_owner(claim, claims.values())
        used = {*numbers, *_list_numbers(folder, _OUTCOME)}
        if claims.get(claim.attempt) == claim and max(used) == claim.attempt:
            return True
        if used and max(used) >= claim.attempt:
            raise AlreadyClaimed(
                f"cannot claim {self._display_name} for attempt {claim.attempt}: attempt {max(used)} has already claimed it"
            )
        return False

    def _check_owner(self, claim: CheckpointClaim, claims: Collection[object]) -> None:
        """Raise ForeignCheckpoint if another job owns the checkpoint or if no claim names its owner."""
        readable = [other for other in claims if isinstance(other, CheckpointClaim)]
        for other in readable:
            if not other.is_same_job(claim):
                cluster = "" if other.cluster == claim.cluster else f" of the cluster '{other.cluster}'"
                raise ForeignCheckpoint(
                    f"the checkpoint {self._display_name} belongs to the job {other.job}{cluster}, "
                    f"whose attempt {other.attempt} used it"
                )
        if not readable and any(other is UNREADABLE_CLAIM for other in claims):
            raise ForeignCheckpoint(
                f"the owner of the checkpoint {self._display_name} is unknown: none of the claims in its folder {FOLDER} "
                f"can be read; if the checkpoint belongs to this job, remove them"
            )

    def _read_claim(self, folder: Folder, attempt: int, *, any_attempt: bool = False) -> "CheckpointClaim | object":
        """Return a claim, EMPTY_CLAIM or UNREADABLE_CLAIM. Raises Unavailable for a claim with a newer schema.

        `any_attempt` accepts a claim whose attempt number differs from the number in its name.
        """
        name = name_claim(attempt)
        where = f"{folder.display_name}/{name}"
        try:
            data = folder.read(name, RECORD_BYTES_MAX)
            if data is None or not data.strip(b"\0"):
                return EMPTY_CLAIM
            claim = codec.decode(CheckpointClaim, data, where=where)
        except codec.NewerSchema as error:
            raise Unavailable(str(error)) from error
        except (codec.MalformedRecord, NotAFile) as error:
            self._warn(str(error))
            return UNREADABLE_CLAIM
        if claim.attempt != attempt and not any_attempt:
            self._warn(f"{where} is ignored: its content is the claim of attempt {claim.attempt}")
            return UNREADABLE_CLAIM
        return claim

    def _find_newest_claim(self, folder: Folder, numbers: list[int]) -> CheckpointClaim | None:
        """Return the newest readable claim among these numbers."""
        claims = (self._read_claim(folder, number) for number in reversed(numbers))
        return next((claim for claim in claims if isinstance(claim, CheckpointClaim)), None)

    def _read_outcome(self, folder: Folder, attempt: int) -> dict[str, Any] | None:
        name = name_outcome(attempt)
        try:
            data = folder.read(name, RECORD_BYTES_MAX)
            if data is None:
                return None
            outcome = json.loads(data)
        except (ValueError, RecursionError, NotAFile):
            outcome = None
        if isinstance(outcome, dict):
            return outcome
        self._warn(f"{folder.display_name}/{name} is ignored: it does not contain an outcome")
        return None

    def _prune(self, folder: Folder) -> None:
        """Remove old claims, outcomes and leftovers. Failures are ignored: they do not affect the claim."""
        with contextlib.suppress(Unavailable):
            for pattern, name in ((_CLAIM, name_claim), (_OUTCOME, name_outcome)):
                for number in _list_numbers(folder, pattern)[:-KEPT_ATTEMPTS]:
                    folder.remove(name(number))
            folder.remove_leftovers(time.time() - LEFTOVER_AGE_S)


EMPTY_CLAIM, UNREADABLE_CLAIM = object(), object()
"""Results for a claim file that was never completed, and for one that is malformed."""


def _list_numbers(folder: Folder, pattern: re.Pattern[str]) -> list[int]:
    return _select_numbers((entry.name for entry in folder.entries()), pattern)


def _select_numbers(names: Iterable[str], pattern: re.Pattern[str]) -> list[int]:
    matches = map(pattern.fullmatch, names)
    return sorted(int(match[1]) for match in matches if match is not None)


def list_claim_numbers(folder: Folder) -> list[int]:
    return _list_numbers(folder, _CLAIM)


def list_outcome_numbers(folder: Folder) -> list[int]:
    return _list_numbers(folder, _OUTCOME)


def name_claim(attempt: int) -> str:
    return f"claim-{_check_attempt(attempt)}"


def name_outcome(attempt: int) -> str:
    return f"outcome-{_check_attempt(attempt)}"


def _check_attempt(attempt: int) -> int:
    if type(attempt) is not int or not 1 <= attempt < 10**18:
        raise Refused(f"{attempt!r} is not a valid attempt number")
    return attempt
