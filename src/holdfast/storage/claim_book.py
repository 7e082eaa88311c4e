"""The claims in one folder, in this process. Values in and out are plain, because a call may come from another process.

A claim is created exclusively, complete and on disk before its attempt starts a driver. What cannot be read is judged by that:
- Its number is used, whatever it holds, and is never given out again.
- Empty, or nothing but zeros: whoever created it was killed before the claim held, so nothing was started. It names nobody.
- Other garbage names nobody either. While another claim can be read, that one says whose checkpoint it is. If none can, nobody
  can tell, and the checkpoint is refused until a person looks.
- A claim of a later schema is not garbage: it is for a node that understands it.
"""

import base64
import contextlib
import dataclasses
import json
import re
import time
from collections.abc import Callable
from typing import Any

from holdfast.errors import Refused, Unavailable
from holdfast.model import codec
from holdfast.storage.filesystem.folder import Folder, OpenFolder
from holdfast.storage.storage_errors import Claimed, FolderMissing, ForeignCheckpoint, Unreadable

FOLDER = "_holdfast"
QUERIES = "queries.json"
KAFKA = "kafka.json"
KAFKA_LOST = "kafka-lost.json"
KAFKA_CHOICE = "kafka-choice.json"
KEPT = 50
LIMIT_BYTES = 256 << 10
KAFKA_LIMIT_BYTES = 8 << 20
"""A hundred bytes for each partition that the job reads."""
NOTES = {QUERIES: LIMIT_BYTES, KAFKA: KAFKA_LIMIT_BYTES, KAFKA_LOST: KAFKA_LIMIT_BYTES, KAFKA_CHOICE: KAFKA_LIMIT_BYTES}
"""What else is kept beside the claims, and how large it may be."""
LITTER_S = 86400.0
_CLAIM = re.compile("claim-([1-9][0-9]{0,17})")
_OUTCOME = re.compile("outcome-([1-9][0-9]{0,17})")


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    cluster: str
    job: str
    attempt: int
    node: str
    nonce: str

    def is_same_job(self, other: "Claim") -> bool:
        return (self.cluster, self.job) == (other.cluster, other.job)


class ClaimBook:
    def __init__(self, open_folder: OpenFolder, shown: str, note: Callable[[str], None]) -> None:
        self._open = open_folder
        self._shown = shown
        self._note = note

    def claim(self, **fields: Any) -> None:
        """Judged before, so that nothing is left in a checkpoint that is somebody else's; and after, because others may have
        come at the same moment. Whoever creates second sees the other one in that second look, so at most one goes on.
        """
        claim = Claim(**fields)
        name = _claim_name(claim.attempt)
        with self._open(True) as folder:
            stands = self._judge(folder, claim) or folder.create(name, codec.encode(claim)) or self._judge(folder, claim)
            if not stands:
                raise Claimed(f"somebody else is claiming attempt {claim.attempt} in {self._shown} at this moment")
            try:
                self._judge(folder, claim)
            except (Claimed, ForeignCheckpoint):
                folder.remove(name)
                raise
            self._prune(folder)

    def owner(self) -> dict[str, Any] | None:
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            for attempt in reversed(_numbers(folder, _CLAIM)):
                found = self._read(folder, attempt)
                if isinstance(found, Claim):
                    return dataclasses.asdict(found)
        return None

    def attempts(self) -> list[int]:
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            return sorted({*_numbers(folder, _CLAIM), *_numbers(folder, _OUTCOME)})
        return []

    def leave_outcome(self, attempt: int, data: str) -> None:
        content = base64.b64decode(data)
        if len(content) > LIMIT_BYTES:
            raise Refused(f"an outcome of {len(content)} bytes is too large: {LIMIT_BYTES} at most")
        with self._open(True) as folder, folder.writing(_outcome_name(attempt)) as write:
            write(memoryview(content))

    def outcome(self, attempt: int) -> dict[str, Any] | None:
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            return self._outcome(folder, attempt)
        return None

    def latest(self) -> tuple[int, dict[str, Any]] | None:
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            for attempt in reversed(_numbers(folder, _OUTCOME)):
                found = self._outcome(folder, attempt)
                if found is not None:
                    return attempt, found
        return None

    def note(self, name: str) -> str | None:
        """As it was left. A name that is no file counts as none."""
        limit = NOTES[name]
        with contextlib.suppress(FolderMissing, Unreadable), self._open(False) as folder:
            data = folder.read(name, limit)
            return data.decode(errors="replace") if data is not None else None
        return None

    def leave_note(self, name: str, data: str) -> None:
        """Whole or not at all, in place of what was there."""
        if len(data.encode()) > NOTES[name]:
            raise Refused(f"{name} would have {len(data.encode())} bytes: {NOTES[name]} at most")
        with self._open(True) as folder, folder.writing(name) as write:
            write(memoryview(data.encode()))

    def drop_note(self, name: str) -> None:
        if name in NOTES:
            with contextlib.suppress(FolderMissing), self._open(False) as folder:
                folder.remove(name)

    def _judge(self, folder: Folder, claim: Claim) -> bool:
        """Whether this very claim stands already. Raises what speaks against it."""
        numbers = _numbers(folder, _CLAIM)
        claims = {number: self._read(folder, number) for number in numbers}
        others = [found for found in claims.values() if isinstance(found, Claim)]
        for found in others:
            if not found.is_same_job(claim):
                where = "" if found.cluster == claim.cluster else f" of the cluster '{found.cluster}'"
                raise ForeignCheckpoint(
                    f"the checkpoint {self._shown} belongs to the job {found.job}{where}, whose attempt {found.attempt} used it"
                )
        if not others and any(found is _GARBAGE for found in claims.values()):
            raise ForeignCheckpoint(
                f"nobody can tell whose checkpoint {self._shown} is: none of the claims in its folder {FOLDER} can be read; "
                f"remove them if it is this job's"
            )
        used = {*numbers, *_numbers(folder, _OUTCOME)}
        if claims.get(claim.attempt) == claim and max(used) == claim.attempt:
            return True
        if used and max(used) >= claim.attempt:
            raise Claimed(f"attempt {claim.attempt} comes too late for {self._shown}: attempt {max(used)} has claimed it")
        return False

    def _read(self, folder: Folder, attempt: int) -> "Claim | object":
        """A claim, _EMPTY or _GARBAGE."""
        name = _claim_name(attempt)
        where = f"{folder.shown}/{name}"
        try:
            data = folder.read(name, LIMIT_BYTES)
            if data is None or not data.strip(b"\0"):
                return _EMPTY
            claim = codec.decode(Claim, data, where=where)
        except codec.NewerSchema as error:
            raise Unavailable(str(error)) from error
        except (codec.Garbage, Unreadable) as error:
            self._note(str(error))
            return _GARBAGE
        if claim.attempt != attempt:
            self._note(f"{where} says that it is the claim of attempt {claim.attempt}")
            return _GARBAGE
        return claim

    def _outcome(self, folder: Folder, attempt: int) -> dict[str, Any] | None:
        name = _outcome_name(attempt)
        try:
            data = folder.read(name, LIMIT_BYTES)
            if data is None:
                return None
            found = json.loads(data)
        except (ValueError, RecursionError, Unreadable):
            found = None
        if isinstance(found, dict):
            return found
        self._note(f"{folder.shown}/{name} does not hold an outcome, and counts as none")
        return None

    def _prune(self, folder: Folder) -> None:
        """Keeps the newest. A claim stands whether or not this works, so it may fail."""
        with contextlib.suppress(Unavailable):
            for pattern, name in ((_CLAIM, _claim_name), (_OUTCOME, _outcome_name)):
                for number in _numbers(folder, pattern)[:-KEPT]:
                    folder.remove(name(number))
            folder.tidy(time.time() - LITTER_S)


_EMPTY, _GARBAGE = object(), object()


def _numbers(folder: Folder, pattern: re.Pattern[str]) -> list[int]:
    matches = (pattern.fullmatch(entry.name) for entry in folder.entries())
    return sorted(int(match[1]) for match in matches if match is not None)


def _claim_name(attempt: int) -> str:
    return f"claim-{_checked(attempt)}"


def _outcome_name(attempt: int) -> str:
    return f"outcome-{_checked(attempt)}"


def _checked(attempt: int) -> int:
    if type(attempt) is not int or not 1 <= attempt < 10**18:
        raise Refused(f"{attempt!r} is not the number of an attempt")
    return attempt
