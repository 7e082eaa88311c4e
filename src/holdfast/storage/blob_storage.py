"""Storage of code as blobs, with one interface for directories and for stores that pyarrow reaches."""

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.storage.blobs import Blobs
from holdfast.storage.digest import is_digest
from holdfast.storage.location import Location, check_location, parse_location
from holdfast.storage.subprocesses.dispatch import STALL_TIMEOUT_S, blobs_caller

BLOB_GRACE_S = 86400.0
"""Seconds for which an unreferenced blob is kept: much longer than a submission takes."""
_BATCH = 400
"""Digests per call, so that the request to a subprocess fits into a pipe."""


class Blob(NamedTuple):
    digest: str
    modified_wall_s: float
    size: int


def open_storage(location: str, *, in_subprocess: bool = True, stall_timeout_s: float = STALL_TIMEOUT_S) -> "Storage":
    """Return the storage at a location, without contacting it. Raises Refused for an invalid location.

    Calls that need pyarrow run in a subprocess. A short-lived process may pass in_subprocess=False and load pyarrow itself.
    """
    check_location(location)
    return Storage(parse_location(location), in_subprocess=in_subprocess, stall_timeout_s=stall_timeout_s)


class Storage:
    """Blobs at one location, the same for every node."""

    def __init__(self, location: Location, *, in_subprocess: bool, stall_timeout_s: float) -> None:
        self.location = str(location)
        """Location in its normal form."""
        self._call = blobs_caller(location, in_subprocess=in_subprocess, stall_timeout_s=stall_timeout_s)

    def put(self, source: Path) -> str:
        """Store a file and return its digest. An existing blob is renewed; a damaged one is replaced."""
        return str(self._call(Blobs.put, source=os.path.abspath(source)))

    def ensure_stored(self, source: Path, digest: str) -> None:
        """Store a blob again if it is missing. Call this after writing the record that references the blob.

        A concurrent garbage collection may have removed the blob before the record existed.
        """
        self._call(Blobs.ensure_stored, source=os.path.abspath(source), digest=digest)

    def fetch(self, digest: str, to: Path) -> None:
        """Write a blob to a local file, atomically and verified. Raises BlobMissing, BlobDamaged and Unavailable."""
        self._call(Blobs.fetch, digest=digest, to=os.path.abspath(to))

    def has(self, digest: str) -> bool:
        return bool(self._call(Blobs.has, digest=digest))

    def require_mounted(self) -> None:
        """Raise Unavailable if the storage contains no blobs: a directory is then more likely not mounted than empty."""
        self._call(Blobs.require_folder)

    def list_blobs(self) -> Iterator[Blob]:
        """Yield all blobs. Modification times are by the storage's clock."""
        for digest, modified_wall_s, size in self._call(Blobs.list_blobs):
            yield Blob(digest, modified_wall_s, size)

    def remove(self, digest: str) -> None:
        self._call(Blobs.remove, digest=digest)

    def collect_garbage(
        self, list_referenced: Callable[[], Collection[str]], now_wall: float, grace_s: float = BLOB_GRACE_S
    ) -> list[str]:
        """Remove the unreferenced blobs that were not renewed for `grace_s` seconds. Return their digests.

        The references are listed after the blobs, and the age of each blob is checked again immediately before its removal.
        In a directory this is free of races. In an object store, a process that is paused between this check and the removal
        for the duration of a whole submission can remove a blob that was just renewed.
        """
        if not grace_s > 0:
            raise ValueError(f"the grace period must be more than 0 s, not {grace_s!r}")
        before_wall_s = now_wall - grace_s
        old = [blob.digest for blob in self.list_blobs() if blob.modified_wall_s < before_wall_s]
        referenced = {name for name in list_referenced() if is_digest(name)} if old else set()
        unreferenced = [digest for digest in old if digest not in referenced]
        removed: list[str] = []
        for start in range(0, max(len(unreferenced), 1), _BATCH):
            removed += self._call(Blobs.remove_older, digests=unreferenced[start : start + _BATCH], before_wall_s=before_wall_s)
        return removed
