"""`Folder` in a local directory, with the standard library alone.

Names are resolved relative to the opened directory and links are never followed, so a planted link cannot lead out of it.
The path of the location itself may contain links: administrators move storage that way.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import Refused
from holdfast.storage.digest import ReadInto, Write, is_digest, read_limited
from holdfast.storage.filesystem.folder import FolderEntry
from holdfast.storage.filesystem.local_io import (
    CREATE_FLAGS,
    DIRECTORY_FLAGS,
    make_directory,
    open_plain_file,
    sync_directory,
    write_all,
)
from holdfast.storage.filesystem.os_errors import os_errors_as_unavailable
from holdfast.storage.storage_errors import FolderMissing

_TEMPORARY = re.compile(r"\.holdfast-[0-9a-f]{16}\.tmp")
_MOVED_ASIDE = re.compile(r"\.swept-([0-9a-f]{64})-[0-9a-f]{16}")


class LocalFolder:
    """Folder with an open directory descriptor. New files get the permission bits `mode`."""

    trusts_size = False  # after a power failure, a disk that ignored fsync may hold a file of the right size full of zeros

    def __init__(self, descriptor: int, display_name: str, *, mode: int = 0o666) -> None:
        self._fd = descriptor
        self._mode = mode
        self.display_name = display_name

    def entries(self) -> Iterator[FolderEntry]:
        with os_errors_as_unavailable(f"cannot list {self.display_name}"):
            names = os.listdir(self._fd)
        for name in names:
            if (entry := self.stat(name)) is not None:
                yield entry

    def stat(self, name: str) -> FolderEntry | None:
        with os_errors_as_unavailable(f"cannot read the attributes of {self.display_name}/{name}"):
            try:
                status = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
            except FileNotFoundError:
                return None
        return FolderEntry(name, status.st_size, status.st_mtime, stat.S_ISREG(status.st_mode))

    @contextlib.contextmanager
    def open_reader(self, name: str) -> Iterator[ReadInto | None]:
        descriptor = self._open_to_read(name)
        if descriptor is None and is_digest(name):
            descriptor = self._open_moved_aside(name)
            if descriptor is None:  # the garbage collector may have moved it back in between
                descriptor = self._open_to_read(name)
        if descriptor is None:
            yield None
            return
        with open(descriptor, "rb", buffering=0) as file:

            def read_into(buffer: memoryview) -> int:
                with os_errors_as_unavailable(f"cannot read {self.display_name}/{name}"):
                    return file.readinto(buffer) or 0

            yield read_into

    def _open_to_read(self, name: str) -> int | None:
        with os_errors_as_unavailable(f"cannot read {self.display_name}/{name}"):
            try:
                return open_plain_file(name, display_name=f"{self.display_name}/{name}", directory_fd=self._fd)
            except FileNotFoundError:
                return None

    def _open_moved_aside(self, name: str) -> int | None:
        """Open a blob that a garbage collector has moved aside and may move back."""
        for entry in self.entries():
            if (match := _MOVED_ASIDE.fullmatch(entry.name)) is not None and match[1] == name:
                return self._open_to_read(entry.name)
        return None

    def read(self, name: str, limit: int) -> bytes | None:
        with self.open_reader(name) as read_into:
            return read_limited(read_into, limit) if read_into is not None else None

    @contextlib.contextmanager
    def open_writer(self, name: str) -> Iterator[Write]:
        temporary = f".holdfast-{os.urandom(8).hex()}.tmp"
        action = f"cannot write to {self.display_name}"
        with os_errors_as_unavailable(action):
            descriptor = os.open(temporary, CREATE_FLAGS, self._mode, dir_fd=self._fd)
        try:

            def write(data: memoryview) -> None:
                with os_errors_as_unavailable(action):
                    write_all(descriptor, data)

            yield write
            with os_errors_as_unavailable(action):
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
        """Create a file. A crash may leave it empty, but then its creator has not continued either."""
        with os_errors_as_unavailable(f"cannot create {self.display_name}/{name}"):
            try:
                descriptor = os.open(name, CREATE_FLAGS, self._mode, dir_fd=self._fd)
            except FileExistsError:
                return False
            try:
                write_all(descriptor, memoryview(data))
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
        """Set the modification time to now. Return False for a file of another user: only its owner may."""
        try:
            os.utime(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def remove(self, name: str) -> None:
        with os_errors_as_unavailable(f"cannot remove {self.display_name}/{name}"), contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)
        self._sync()

    def remove_if_older(self, name: str, before_wall_s: float) -> bool:
        """Move the file aside, check its age again, and then remove it. A file renewed in between is moved back."""
        entry = self.stat(name)
        if entry is None or not entry.is_file or entry.modified_wall_s >= before_wall_s:
            return False
        aside = f".swept-{name}-{os.urandom(8).hex()}"
        with os_errors_as_unavailable(f"cannot remove {self.display_name}/{name}"):
            try:
                os.rename(name, aside, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except FileNotFoundError:
                return False
        return self._finish_removal(aside, name, before_wall_s)

    def _finish_removal(self, aside: str, name: str, before_wall_s: float) -> bool:
        """Remove a file that was moved aside, or move it back. A later run finishes the removals of a killed one."""
        entry = self.stat(aside)
        if entry is None:
            return False
        renewed = entry.modified_wall_s >= before_wall_s
        with os_errors_as_unavailable(f"cannot remove {self.display_name}/{aside}"), contextlib.suppress(FileNotFoundError):
            if renewed and self.stat(name) is None:
                os.rename(aside, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            else:
                os.unlink(aside, dir_fd=self._fd)
        return not renewed

    def remove_leftovers(self, before_wall_s: float) -> None:
        for entry in self.entries():
            if (match := _MOVED_ASIDE.fullmatch(entry.name)) is not None:
                self._finish_removal(entry.name, match[1], before_wall_s)
            elif _TEMPORARY.fullmatch(entry.name) and entry.modified_wall_s < before_wall_s:
                self.remove(entry.name)

    def _sync(self) -> None:
        with os_errors_as_unavailable(f"cannot write to {self.display_name}"):
            sync_directory(self._fd)


@contextlib.contextmanager
def open_local_folder(root: Path, name: str, make: bool, *, make_root: bool = False) -> Iterator[LocalFolder]:
    """Open a folder of the directory `root`. Raises FolderMissing if one of them is missing and may not be created."""
    display_name = f"{root}/{name}"
    with os_errors_as_unavailable(f"cannot open {display_name}"):
        if make and make_root:
            make_directory(root)
        descriptor = _open_below(root, name, make, display_name)
    try:
        yield LocalFolder(descriptor, display_name)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_node_directory(path: Path) -> Iterator[LocalFolder]:
    """Open a directory of this node. Files created in it are readable by their owner only."""
    with os_errors_as_unavailable(f"cannot open {path}"):
        descriptor = os.open(path, DIRECTORY_FLAGS)
    try:
        yield LocalFolder(descriptor, str(path), mode=0o600)
    finally:
        os.close(descriptor)


def _open_below(root: Path, name: str, make: bool, display_name: str) -> int:
    try:
        top = os.open(root, DIRECTORY_FLAGS)
    except FileNotFoundError:
        raise FolderMissing(display_name) from None
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=top)
                sync_directory(top)
        return os.open(name, DIRECTORY_FLAGS | os.O_NOFOLLOW, dir_fd=top)
    except FileNotFoundError:
        raise FolderMissing(display_name) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Refused(f"{display_name} must be a folder, not a link or a file") from error
        raise
    finally:
        os.close(top)
