"""Small file system for one node, which a fault can fill."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

SIZE_MB = 64
"""Room for the logs of many attempts; memory is used only as far as it is filled."""
FILLER_NAME = "filler"


def can_mount(directory: Path) -> bool:
    """Return True if this process may mount a file system."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with mounted(directory):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


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
