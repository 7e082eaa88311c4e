"""System calls on local files that `LocalFolder` and `LocalFiles` share. They raise OSError."""

import errno
import os
import stat
from pathlib import Path

from holdfast.storage.storage_errors import NotAFile

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # without O_NONBLOCK, opening a pipe blocks


def open_plain_file(path: str | Path, *, display_name: str, directory_fd: int | None = None) -> int:
    """Open a regular file for reading and return its descriptor. Raises NotAFile for a link, a pipe or a directory."""
    try:
        descriptor = os.open(path, _READ_FLAGS, dir_fd=directory_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotAFile(f"{display_name} is not a file") from error
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotAFile(f"{display_name} is not a file")


def write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def make_directory(path: Path) -> None:
    """Create a directory and its parents. Each new name is on disk before the next directory is created below it."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    descriptor = os.open(path.parent, DIRECTORY_FLAGS)
    try:
        sync_directory(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(descriptor: int) -> None:
    """Flush a directory's names to disk. Network file systems that do not support this store names durably anyway."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
