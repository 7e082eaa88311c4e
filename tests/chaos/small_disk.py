"""File systems of the cluster under attack: a small one for a node, which a fault can fill, and one for the storage."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

SIZE_MB = 64
"""Room for the logs of many attempts; memory is used only as far as it is filled."""
STORAGE_MB = 512
"""Room for the code of many jobs; the image file is sparse."""
FILLER_NAME = "filler"


def can_mount(directory: Path) -> bool:
    """Return True if this process may mount a file system."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with mounted(directory):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def can_freeze(directory: Path) -> bool:
    """Return True if this process may mount a file system that can be frozen."""
    try:
        with mounted_storage(directory):
            return True
    except OSError:
        return False


class StorageDisk:
    """File system for the storage that can be frozen: each write then waits."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._freezer: subprocess.Popen[bytes] | None = None

    def freeze(self) -> None:
        # The end of this process must end the freeze, however it ends: a process that waits for a frozen disk cannot be killed.
        script = 'fsfreeze --freeze "$1" && echo && read line; fsfreeze --unfreeze "$1"'
        command = ["sh", "-c", script, "sh", str(self._directory)]
        self._freezer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self._freezer.stdout is not None
        if not self._freezer.stdout.readline():
            raise OSError(f"cannot freeze the file system at {self._directory}")

    def thaw(self) -> None:
        if self._freezer is not None:
            self._freezer.communicate()
            self._freezer = None


@contextlib.contextmanager
def mounted_storage(directory: Path) -> Iterator[StorageDisk]:
    """Mount an ext4 file system in an image file beside this directory until the end of the block. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    image = directory.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(STORAGE_MB << 20)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(directory)], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise OSError(error.stderr.decode(errors="replace")) from error
    disk = StorageDisk(directory)
    try:
        yield disk
    finally:
        disk.thaw()
        subprocess.run(["umount", "--lazy", str(directory)], check=True, capture_output=True)
        image.unlink()


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[None]:
    """Mount a small file system in memory at this directory until the end of the block."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "none", str(directory)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True, capture_output=True)


def fill(directory: Path) -> None:
    """Write a file until the file system is full."""
    descriptor = os.open(directory / FILLER_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (1 << 20, 1 << 12, 1):
        with contextlib.suppress(OSError):
            while os.write(descriptor, b"x" * size):
                pass
    os.close(descriptor)


def empty(directory: Path) -> None:
    (directory / FILLER_NAME).unlink(missing_ok=True)
