"""A folder in a directory, with the standard library alone.

Every name is looked up relative to the opened folder and links are never followed, so that nothing that somebody plants there
leads out. (The location itself may lead through links: that is how administrators move storage.)
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import Refused, Unavailable
from holdfast.storage.digest import ReadInto, Write, is_digest
from holdfast.storage.filesystem.folder import Entry
from holdfast.storage.storage_errors import FolderMissing, Unreadable

_TEMPORARY = re.compile(r"\.holdfast-[0-9a-f]{16}\.tmp")
_SWEPT = re.compile(r"\.swept-([0-9a-f]{64})-[0-9a-f]{16}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalFolder:
    trusts_size = False  # a power cut can leave a file of the right size full of zeros, where the disk lied about fsync

    def __init__(self, descriptor: int, shown: str, *, mode: int = 0o666) -> None:
        self._fd = descriptor
        self._mode = mode
        self.shown = shown

    def entries(self) -> Iterator[Entry]:
        with saying(f"cannot list {self.shown}"):
            names = os.listdir(self._fd)
        for name in names:
            if (entry := self.stat(name)) is not None:
                yield entry

    def stat(self, name: str) -> Entry | None:
        with saying(f"cannot look at {self.shown}/{name}"):
            try:
                found = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
            except FileNotFoundError:
                return None
        return Entry(name, found.st_size, found.st_mtime, stat.S_ISREG(found.st_mode))

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[ReadInto | None]:
        descriptor = self._open_to_read(name)
        if descriptor is None and is_digest(name):
            descriptor = self._open_swept(name)
            if descriptor is None:  # or it has just been put back
                descriptor = self._open_to_read(name)
        if descriptor is None:
            yield None
            return
        with open(descriptor, "rb", buffering=0) as file:

            def read_into(buffer: memoryview) -> int:
                with saying(f"cannot read {self.shown}/{name}"):
                    return file.readinto(buffer) or 0

            yield read_into

    def _open_to_read(self, name: str) -> int | None:
        with saying(f"cannot read {self.shown}/{name}"):
            try:
                descriptor = os.open(name, _READ, dir_fd=self._fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    raise Unreadable(f"{self.shown}/{name} is not a file") from error
                raise
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
        raise Unreadable(f"{self.shown}/{name} is not a file")

    def _open_swept(self, name: str) -> int | None:
        """What a sweeper has in its hands at this moment, and may put back."""
        for entry in self.entries():
            if (match := _SWEPT.fullmatch(entry.name)) is not None and match[1] == name:
                return self._open_to_read(entry.name)
        return None

    def read(self, name: str, limit: int) -> bytes | None:
        with self.reading(name) as read_into:
            if read_into is None:
                return None
            buffer = memoryview(bytearray(limit + 1))
            filled = 0
            while filled <= limit and (count := read_into(buffer[filled:])):
                filled += count
            return bytes(buffer[:filled])

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Write]:
        temporary = f".holdfast-{os.urandom(8).hex()}.tmp"
        what = f"cannot write to {self.shown}"
        with saying(what):
            descriptor = os.open(temporary, _CREATE, self._mode, dir_fd=self._fd)
        try:

            def write(piece: memoryview) -> None:
                with saying(what):
                    _write_all(descriptor, piece)

            yield write
            with saying(what):
                os.fsync(descriptor)
                os.rename(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self._fd)
            raise
        finally:
            os.close(descriptor)
        self._sync()

    def create(self, name: str, data: bytes) -> bool:
        """A crash may leave it empty, but then whoever created it has not gone on."""
        with saying(f"cannot create {self.shown}/{name}"):
            try:
                descriptor = os.open(name, _CREATE, self._mode, dir_fd=self._fd)
            except FileExistsError:
                return False
            try:
                _write_all(descriptor, memoryview(data))
                os.fsync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._fd)
                raise
            finally:
                os.close(descriptor)
        self._sync()
        return True

    def renew(self, name: str) -> bool:
        """Not if it belongs to another user: only the owner may."""
        try:
            os.utime(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def remove(self, name: str) -> None:
        with saying(f"cannot remove {self.shown}/{name}"), contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)
        self._sync()

    def retire(self, name: str, before_wall_s: float) -> bool:
        """First set aside, then looked at again: what was renewed between a look and the removal is put back, not lost."""
        entry = self.stat(name)
        if entry is None or not entry.is_file or entry.modified_wall_s >= before_wall_s:
            return False
        aside = f".swept-{name}-{os.urandom(8).hex()}"
        with saying(f"cannot remove {self.shown}/{name}"):
            try:
                os.rename(name, aside, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except FileNotFoundError:
                return False
        return self._settle_swept(aside, name, before_wall_s)

    def _settle_swept(self, aside: str, name: str, before_wall_s: float) -> bool:
        """For the sweeper that set it aside, or for a later one if that one was killed."""
        entry = self.stat(aside)
        if entry is None:
            return False
        renewed = entry.modified_wall_s >= before_wall_s
        with saying(f"cannot remove {self.shown}/{aside}"), contextlib.suppress(FileNotFoundError):
            if renewed and self.stat(name) is None:
                os.rename(aside, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            else:
                os.unlink(aside, dir_fd=self._fd)
        return not renewed

    def tidy(self, before_wall_s: float) -> None:
        for entry in self.entries():
            if (match := _SWEPT.fullmatch(entry.name)) is not None:
                self._settle_swept(entry.name, match[1], before_wall_s)
            elif _TEMPORARY.fullmatch(entry.name) and entry.modified_wall_s < before_wall_s:
                self.remove(entry.name)

    def _sync(self) -> None:
        with saying(f"cannot write to {self.shown}"):
            _sync_directory(self._fd)


@contextlib.contextmanager
def open_local(root: Path, name: str, make: bool, *, make_root: bool = False) -> Iterator[LocalFolder]:
    """A folder of a directory. Raises FolderMissing if it, or the directory, is not there and is not to be made."""
    shown = f"{root}/{name}"
    with saying(f"cannot open {shown}"):
        if make and make_root:
            _make_directory(root)
        descriptor = _open_below(root, name, make, shown)
    try:
        yield LocalFolder(descriptor, shown)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_node_directory(path: Path) -> Iterator[LocalFolder]:
    """A directory of this node, for files that are nobody else's business."""
    with saying(f"cannot open {path}"):
        descriptor = os.open(path, _DIRECTORY)
    try:
        yield LocalFolder(descriptor, str(path), mode=0o600)
    finally:
        os.close(descriptor)


def _make_directory(path: Path) -> None:
    """With its parents, and durably: each new name is on disk before anything is put below it."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync_path(path.parent)


def _open_below(root: Path, name: str, make: bool, shown: str) -> int:
    try:
        top = os.open(root, _DIRECTORY)
    except FileNotFoundError:
        raise FolderMissing(shown) from None
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=top)
                _sync_directory(top)
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    except FileNotFoundError:
        raise FolderMissing(shown) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Refused(f"{shown} must be a folder, and neither a link nor a file") from error
        raise
    finally:
        os.close(top)


def _write_all(descriptor: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(descriptor, piece) :]


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, _DIRECTORY)
    try:
        _sync_directory(descriptor)
    finally:
        os.close(descriptor)


def _sync_directory(descriptor: int) -> None:
    """Some network file systems cannot, and keep names safe by themselves."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


@contextlib.contextmanager
def saying(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"{what}: {error.strerror or error}") from error
