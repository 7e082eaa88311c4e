"""The storage as everybody else sees it: the same for a directory and for a store that is reached through pyarrow."""

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.storage.blobs import FOLDER
from holdfast.storage.digest import is_digest
from holdfast.storage.dispatch import SILENCE_S, caller
from holdfast.storage.location import Location, parse, validate

GRACE_S = 86400.0
"""How long a blob that no record names is kept: much longer than a submission takes."""
_BATCH = 400
"""Digests per call, so that a call to another process fits into a pipe."""


class Blob(NamedTuple):
    digest: str
    modified_wall_s: float
    size: int


def open_storage(location: str, *, apart: bool = True, silence_s: float = SILENCE_S) -> "Storage":
    """Refuses what cannot be a location; asks nobody, so a storage that is away shows at the first call.

    What needs pyarrow runs in a process of its own. A short-lived process may say apart=False and load it itself.
    """
    validate(location)
    return Storage(parse(location), apart=apart, silence_s=silence_s)


class Storage:
    def __init__(self, location: Location, *, apart: bool, silence_s: float) -> None:
        self.location = str(location)
        """As it was given, spelled the usual way."""
        self._call = caller(location, FOLDER, apart=apart, silence_s=silence_s)

    def put(self, source: Path) -> str:
        """Store a file and give its digest. A blob that is there already is only renewed; a wrong one is replaced."""
        return str(self._call("put", source=os.path.abspath(source)))

    def ensure(self, source: Path, digest: str) -> None:
        """After the record that names the blob is written: store it again if a sweeper was faster than that record."""
        self._call("ensure", source=os.path.abspath(source), digest=digest)

    def fetch(self, digest: str, to: Path) -> None:
        """The file appears whole and right, or not at all. Raises BlobMissing, BlobDamaged, Unavailable."""
        self._call("fetch", digest=digest, to=os.path.abspath(to))

    def has(self, digest: str) -> bool:
        return bool(self._call("has", digest=digest))

    def blobs(self) -> Iterator[Blob]:
        """As they were when this was called; times are by the storage's clock."""
        for digest, modified_wall_s, size in self._call("listing"):
            yield Blob(digest, modified_wall_s, size)

    def remove(self, digest: str) -> None:
        self._call("remove", digest=digest)

    def sweep(self, named: Callable[[], Collection[str]], now_wall: float, grace_s: float = GRACE_S) -> list[str]:
        """Remove the blobs that no record names and that have not been renewed for the grace time; says which.

        Records are read after the blobs were listed, and each blob's age again right before it is removed. In a directory that
        is free of races. In an object store a sweeper that is paused between that look and the removal, for as long as a
        whole submission takes, can remove a blob that has just been renewed.
        """
        if not grace_s > 0:
            raise ValueError(f"a grace time must be more than 0, not {grace_s!r}")
        before_wall_s = now_wall - grace_s
        old = [blob.digest for blob in self.blobs() if blob.modified_wall_s < before_wall_s]
        spared = {name for name in named() if is_digest(name)} if old else set()
        unnamed = [digest for digest in old if digest not in spared]
        removed: list[str] = []
        for start in range(0, max(len(unnamed), 1), _BATCH):
            removed += self._call("retire", digests=unnamed[start : start + _BATCH], before_wall_s=before_wall_s)
        return removed
