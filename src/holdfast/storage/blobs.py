"""Blobs: files named by the SHA-256 of their content, in one `Folder`.

Arguments and results are JSON values, because a call may come from another process (see `dispatch`).
"""

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import Refused, Unavailable
from holdfast.storage.digest import ReadInto, check_digest, compute_digest, copy_and_hash, is_digest
from holdfast.storage.filesystem.folder import Folder, OpenFolder
from holdfast.storage.filesystem.local_folder import open_node_directory
from holdfast.storage.storage_errors import BlobDamaged, BlobMissing, FolderMissing, NotAFile

FOLDER = "blobs"


class Blobs:
    """Operations on the blobs of one folder, in this process."""

    def __init__(self, open_folder: OpenFolder, display_name: str) -> None:
        self._open = open_folder
        self._display_name = display_name

    def put(self, source: str) -> str:
        """Store a file and return its digest. The file is hashed twice: if it changes in between, nothing is stored."""
        path = Path(source)
        with _open_source(path) as read_into:
            digest, size = compute_digest(read_into)
        with self._existing_folder(make=True) as folder:
            if not _renew(folder, digest, size):
                _upload(folder, path, digest)
        return digest

    def ensure_stored(self, source: str, digest: str) -> None:
        """Store a blob again if garbage collection removed it between `put` and the record that references it."""
        if not self.has(digest) and (stored := self.put(source)) != digest:
            raise Refused(
                f"{source} changed during the submission: its SHA-256 was {digest} and is now {stored}; submit it again"
            )

    def fetch(self, digest: str, to: str) -> None:
        check_digest(digest)
        path = Path(to)
        if path.is_dir():
            raise Refused(f"{path} is a directory: a blob is fetched as a file")
        with (
            self._existing_folder() as folder,
            _open_blob(folder, digest) as read_into,
            open_node_directory(path.parent) as node,
            node.open_writer(path.name) as write,
        ):
            actual, size = copy_and_hash(read_into, write)
            if actual != digest:
                raise BlobDamaged(
                    f"the blob {digest} in {self._display_name} is damaged: its {size} bytes have the SHA-256 {actual}; "
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

    def require_folder(self) -> None:
        """Raise Unavailable if the folder of the blobs does not exist."""
        with self._existing_folder():
            pass

    def list_blobs(self) -> list[tuple[str, float, int]]:
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

    def remove_older(self, digests: list[str], before_wall_s: float) -> list[str]:
        """Remove the given blobs that were modified before `before_wall_s`. Return the digests of the removed ones."""
        for digest in digests:
            check_digest(digest)
        try:
            with self._open(False) as folder:
                folder.remove_leftovers(before_wall_s)
                return [digest for digest in digests if folder.remove_if_older(digest, before_wall_s)]
        except FolderMissing:
            return []

    @contextlib.contextmanager
    def _existing_folder(self, *, make: bool = False) -> Iterator[Folder]:
        """Open the folder. Raises Unavailable if it is missing: the storage is then more likely unmounted than empty."""
        try:
            with self._open(make) as folder:
                yield folder
        except FolderMissing:
            problem = "does not exist" if make else "contains no blobs"
            raise Unavailable(
                f"the storage {self._display_name} {problem}: check the location and that it is mounted on this machine"
            ) from None


def _renew(folder: Folder, digest: str, size: int) -> bool:
    """Renew a blob, which protects it from garbage collection. Return False if it is missing, damaged or not renewable."""
    entry = folder.stat(digest)
    if entry is None or not entry.is_file or entry.size != size:
        return False
    return (folder.trusts_size or _is_undamaged(folder, digest)) and folder.renew(digest)


def _is_undamaged(folder: Folder, digest: str) -> bool:
    """Return False for a blob that is damaged or cannot be read, for example because of another user's permissions."""
    with contextlib.suppress(Unavailable, NotAFile), folder.open_reader(digest) as read_into:
        return read_into is not None and compute_digest(read_into)[0] == digest
    return False


def _upload(folder: Folder, source: Path, digest: str) -> None:
    with _open_source(source) as read_into, folder.open_writer(digest) as write:
        if copy_and_hash(read_into, write)[0] != digest:
            raise Refused(f"{source} changed while it was being stored: submit it again")


@contextlib.contextmanager
def _open_source(path: Path) -> Iterator[ReadInto]:
    """Open a file of the caller. Raises Refused for any problem with it: the request is wrong, not the storage."""
    try:
        mode = path.stat().st_mode  # checked before opening: opening a pipe would block
        if stat.S_ISDIR(mode):
            raise Refused(f"{path} is a directory: pack it into one file (.zip, .whl, .egg or .tar.gz) and give that")
        if not stat.S_ISREG(mode):
            raise Refused(f"{path} is not a file")
        file = open(path, "rb", buffering=0)  # noqa: SIM115 -- closed below, outside of this `try`
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
def _open_blob(folder: Folder, digest: str) -> Iterator[ReadInto]:
    """Open a blob for reading. Raises BlobMissing and BlobDamaged."""
    try:
        with folder.open_reader(digest) as read_into:
            if read_into is None:
                raise BlobMissing(f"the blob {digest} is not in {folder.display_name}: submit the job again")
            yield read_into
    except NotAFile as error:
        raise BlobDamaged(f"the blob {digest} is damaged: {error}") from error
