"""Output of a driver and its descendants: a thread reads it, writes rotating log files and keeps the end in memory."""

import contextlib
import fcntl
import os
import select
import threading
from itertools import pairwise
from pathlib import Path

LOG_FILE_BYTES_MAX = 10_000_000
LOG_FILES_MAX = 5
TAIL_BYTES = 64 * 1024
CHUNK_BYTES = 256 * 1024
PIPE_BYTES = 1024 * 1024
"""Requested pipe size: the amount that a driver can print while the disk is slow. A smaller pipe works too."""


class DriverOutput:
    """Reader of `descriptor`, which it owns, until the last process has closed the other end.

    It appends to `path`. A file of `file_bytes` is rotated to `path`.1 and so on, up to `files` files. Output that the disk
    does not accept is dropped and counted, and a line in the log says so: a driver never blocks because of its log.
    """

    def __init__(
        self,
        descriptor: int,
        path: Path,
        *,
        file_bytes: int = LOG_FILE_BYTES_MAX,
        files: int = LOG_FILES_MAX,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        self._source = descriptor
        self._log = _RotatingLog(path, file_bytes, files)
        self._tail = b""
        self._tail_bytes = tail_bytes
        self._stop_event = -1
        with contextlib.suppress(OSError):  # above this user's limit
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        # A daemon thread, because a disk that hangs must not keep the runner from exiting.
        self._thread = threading.Thread(target=self._read_all, name="driver-output", daemon=True)
        try:
            self._stop_event = os.eventfd(0)
            self._thread.start()
        except (OSError, RuntimeError):  # too many descriptors or threads
            os.close(descriptor)
            if self._stop_event >= 0:
                os.close(self._stop_event)
            raise

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    @property
    def dropped_bytes(self) -> int:
        """Total output that the disk has not accepted."""
        return self._log.dropped_bytes

    def tail(self) -> str:
        """Return the end of the output. Thread-safe, because the bytes are replaced as a whole."""
        return self._tail.decode(errors="replace")

    def close(self, timeout_s: float = 2.0) -> bool:
        """Wait for the end of the output, then stop reading. Return False if the disk hangs; the thread is then abandoned."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            os.eventfd_write(self._stop_event, 1)
            self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        if self._stop_event >= 0:
            os.close(self._stop_event)
            self._stop_event = -1
        return True

    def _read_all(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._stop_event, select.POLLIN)
        try:
            while True:
                if any(descriptor == self._stop_event for descriptor, _ in poll.poll()):
                    break
                chunk = os.read(self._source, CHUNK_BYTES)
                if not chunk:
                    break
                self._tail = (self._tail + chunk)[-self._tail_bytes :]
                self._log.append(chunk)
        finally:
            os.close(self._source)
            self._log.close()


class _RotatingLog:
    """Log file with its rotated predecessors. Disk errors are counted, never raised."""

    def __init__(self, path: Path, file_bytes: int, files: int) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._files = files
        self._file: int | None = None
        self._size = 0
        self._gap_bytes = 0
        """Bytes dropped since the last write that succeeded."""
        self._problem = ""
        self.dropped_bytes = 0

    def append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                self._write_gap_notice()
                rest = rest[self._write(rest[: self._room(rest)]) :]
            except OSError as error:
                self._close_after_error(error)
                self._gap_bytes += len(rest)
                self.dropped_bytes += len(rest)
                return

    def close(self) -> None:
        try:
            self._write_gap_notice()
        except OSError as error:
            self._close_after_error(error)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _room(self, data: memoryview) -> int:
        """Return how many bytes go into the current file, after rotating it if needed. Prefer to end a file with a line."""
        if self._file is None:
            self._open()
        room = self._file_bytes - self._size
        if len(data) <= room:
            return len(data)
        line_end = bytes(data[: max(room, 0)]).rfind(b"\n") + 1
        if line_end or self._size == 0:
            return line_end or room
        self._rotate()
        return self._room(data)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)  # output may contain secrets
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{number}") for number in range(1, self._files))]
        names[-1].unlink(missing_ok=True)
        for newer, older in reversed(list(pairwise(names))):
            if newer.exists():
                newer.replace(older)
        self._open()

    def _write(self, data: "memoryview | bytes") -> int:
        if self._file is None:
            self._open()
        assert self._file is not None
        written = os.write(self._file, data)
        self._size += written
        return written

    def _write_gap_notice(self) -> None:
        if self._gap_bytes:
            rest = f"\n[holdfast: {self._gap_bytes} bytes of output are missing here: {self._problem}]\n".encode()
            while rest:
                rest = rest[self._write(rest) :]
            self._gap_bytes = 0

    def _close_after_error(self, error: OSError) -> None:
        """Close the file, so that the next write opens it anew: it may have been moved, or its disk remounted."""
        self._problem = error.strerror or str(error)
        if self._file is not None:
            descriptor, self._file = self._file, None
            with contextlib.suppress(OSError):  # Linux closes it even then
                os.close(descriptor)
