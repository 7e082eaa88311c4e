"""Checks of a node. Each blocks, and returns a problem as a sentence without its subject, or an empty string.

A sentence contains no changing numbers: each change would become an event of every job that waits.
"""

import contextlib
import errno
import os
from pathlib import Path

FREE_BYTES_MIN = 64 << 20
"""Free space below which a disk counts as full. The logs of one busy driver fill it within minutes."""
AVAILABLE_BYTES_MIN = 128 << 20
"""Available memory below which the machine counts as out of memory. A driver needs several times as much."""
PROBE_BYTES = b"0" * 4096
MEMORY_INFO = Path("/proc/meminfo")


def check_disk(directory: Path, *, free_bytes_min: int = FREE_BYTES_MIN) -> str:
    """Check that the node's directory can be written and has free space."""
    try:
        _write_probe(directory / ".health-check")
        free = _free_bytes(directory)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"its disk is full ({_reason(error)}: {directory})"
        return f"its directory {directory} cannot be written ({_reason(error)})"
    if free < free_bytes_min:
        return f"its disk is full (less than {free_bytes_min >> 20} MiB are free in {directory})"
    return ""


def check_storage(directory: Path, node: str) -> str:
    """Check that a storage in a directory is mounted and can be written."""
    try:
        if not directory.is_dir():
            return f"the storage {directory} does not exist there"
        _write_probe(directory / f".health-check-{node}")
    except OSError as error:
        return f"it cannot write to the storage {directory} ({_reason(error)})"
    return ""


def check_memory(memory_info: Path = MEMORY_INFO) -> str:
    """Check that the machine has memory for another driver."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in memory_info.read_text().splitlines():
            if line.startswith("MemAvailable:") and int(line.split()[1]) << 10 < AVAILABLE_BYTES_MIN:
                return f"its memory is used up (less than {AVAILABLE_BYTES_MIN >> 20} MiB are available)"
    return ""


def _write_probe(path: Path) -> None:
    """Write a small file to the disk and remove it. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        written = os.write(descriptor, PROBE_BYTES)
        if written < len(PROBE_BYTES):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink()


def _free_bytes(directory: Path) -> int:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
