"""Blobs: files named by the SHA-256 of their content, so that a name can only ever mean one thing.

Works on one folder, in this process, whatever kind of folder it is. Values in and out are plain (text, numbers, lists), because
a call may come from another process.
"""

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import Refused, Unavailable
from holdfast.storage.digest import ReadInto, check_digest, copy, digest_of, is_digest
from holdfast.storage.filesystem.folder import Folder, OpenFolder
from holdfast.storage.filesystem.local_folder import open_node_directory
from holdfast.storage.storage_errors import BlobDamaged, BlobMissing, FolderMissing, Unreadable

FOLDER = "blobs"


class Blobs:
    def __init__(self, open_folder: OpenFolder, shown: str) -> None:
        self._open = open_folder
        self._shown = shown

    def put(self, source: str) -> str:
        """Hashed first, and again on the way: what is stored is what the name says, or nothing is."""
        path = Path(source)
        with _reading(path) as read_into:
            digest, size = digest_of(read_into)
        with self._there(make=True) as folder:
            if not _keep(folder, digest, size):
                _upload(folder, path, digest)
        return digest

    def ensure(self, source: str, digest: str) -> None:
        """A sweeper may have removed the blob between `put` and the record that names it; from that record on it may not."""
        if not self.has(digest) and (stored := self.put(source)) != digest:
            raise Refused(f"{source} is not what was submitted any more: its SHA-256 is {stored} now, and was {digest}")

    def fetch(self, digest: str, to: str) -> None:
        check_digest(digest)
        path = Path(to)
        if path.is_dir():
            raise Refused(f"{path} is a directory: a blob is fetched as a file")
        with (
            self._there() as folder,
            _plain(folder, digest) as read_into,
            open_node_directory(path.parent) as node,
            node.writing(path.name) as write,
        ):
            actual, size = copy(read_into, write)
            if actual != digest:
                raise BlobDamaged(
                    f"the blob {digest} in {self._shown} is damaged: its {size} bytes have the SHA-256 {actual}; "
                    f"{'remove it and ' if folder.trusts_size else ''}submit the same file again to replace it"
                )

    def has(self, digest: str) -> bool:
        check_digest(digest)
        try:
            with self._open(False) as folder:
                entry = folder.stat(digest)
                return entry is not None and entry.is_file
        except FolderMissing:
            return False

    def listing(self) -> list[tuple[str, float, int]]:
        try:
            with self._open(False) as folder:
                blobs = [entry for entry in folder.entries() if entry.is_file and is_digest(entry.name)]
                return sorted((entry.name, entry.modified_wall_s, entry.size) for entry in blobs)
        except FolderMissing:
            return []

    def remove(self, digest: str) -> None:
        check_digest(digest)
        with contextlib.suppress(FolderMissing), self._open(False) as folder:
            folder.remove(digest)

    def retire(self, digests: list[str], before_wall_s: float) -> list[str]:
        """Removes those that are still older; says which they were."""
        for digest in digests:
            check_digest(digest)
        try:
            with self._open(False) as folder:
                folder.tidy(before_wall_s)
                return [digest for digest in digests if folder.retire(digest, before_wall_s)]
        except FolderMissing:
            return []

    @contextlib.contextmanager
    def _there(self, *, make: bool = False) -> Iterator[Folder]:
        """A storage without any blobs is more likely one that is not mounted on this machine than an empty one."""
        try:
            with self._open(make) as folder:
                yield folder
        except FolderMissing:
            what = "does not exist" if make else "holds no blobs at all"
            raise Unavailable(f"the storage {self._shown} {what}: is it the right one, and mounted on this machine?") from None


def _keep(folder: Folder, digest: str, size: int) -> bool:
    """Whether the blob is there already, whole, and renewed so that no sweeper takes it for an old one."""
    entry = folder.stat(digest)
    if entry is None or not entry.is_file or entry.size != size:
        return False
    return (folder.trusts_size or _is_whole(folder, digest)) and folder.renew(digest)


def _is_whole(folder: Folder, digest: str) -> bool:
    """What cannot be read, for example because another user keeps it to himself, is replaced as well."""
    with contextlib.suppress(Unavailable, Unreadable), folder.reading(digest) as read_into:
        return read_into is not None and digest_of(read_into)[0] == digest
    return False


def _upload(folder: Folder, source: Path, digest: str) -> None:
    with _reading(source) as read_into, folder.writing(digest) as write:
        if copy(read_into, write)[0] != digest:
            raise Refused(f"{source} changed while it was being stored: submit it again")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[ReadInto]:
    """A file of whoever calls: what is wrong with it is wrong with the request."""
    try:
        mode = path.stat().st_mode  # before it is opened: to open a pipe has consequences
        if stat.S_ISDIR(mode):
            raise Refused(f"{path} is a directory: pack it into one file (.zip, .whl, .egg or .tar.gz) and give that")
        if not stat.S_ISREG(mode):
            raise Refused(f"{path} is not a file")
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below; what its user raises is not its own
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error

    def read_into(buffer: memoryview) -> int:
        try:
            return file.readinto(buffer) or 0
        except OSError as error:
            raise Refused(f"cannot read {path}: {error.strerror}") from error

    with file:
        yield read_into


@contextlib.contextmanager
def _plain(folder: Folder, digest: str) -> Iterator[ReadInto]:
    try:
        with folder.reading(digest) as read_into:
            if read_into is None:
                raise BlobMissing(f"the blob {digest} is not in {folder.shown}: submit the job again")
            yield read_into
    except Unreadable as error:
        raise BlobDamaged(f"the blob {digest} is damaged: {error}") from error
