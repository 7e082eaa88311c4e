"""What a driver and its children print: read by a thread, kept in files of bounded size, and the end of it in memory."""

import contextlib
import fcntl
import os
import select
import threading
from itertools import pairwise
from pathlib import Path

FILE_BYTES = 10_000_000
FILES = 5
TAIL_BYTES = 64 * 1024
CHUNK_BYTES = 256 * 1024
PIPE_BYTES = 1024 * 1024
"""As much as a driver may print while the disk takes its time. Asked for; a smaller pipe does too."""


class Output:
    """Reads `descriptor`, which it owns from now on, until its end: the moment when nobody can print any more.

    Appends to `path`, at most `file_bytes`; then that file becomes `path`.1, and so on, `files` in all. What a full or broken
    disk does not take is dropped and counted, and the log says so as soon as it can: a driver never stops because of its log.
    """

    def __init__(
        self,
        descriptor: int,
        path: Path,
        *,
        file_bytes: int = FILE_BYTES,
        files: int = FILES,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        self._source = descriptor
        self._log = _Log(path, file_bytes, files)
        self._tail = b""
        self._tail_bytes = tail_bytes
        self._stop = -1
        with contextlib.suppress(OSError):  # more than this user may have
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        # A daemon: a disk that hangs for ever must not keep the runner from ending.
        self._thread = threading.Thread(target=self._read_all, name="driver-output", daemon=True)
        try:
            self._stop = os.eventfd(0)
            self._thread.start()
        except (OSError, RuntimeError):  # no descriptors, no threads
            os.close(descriptor)
            if self._stop >= 0:
                os.close(self._stop)
            raise

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    @property
    def dropped_bytes(self) -> int:
        """How much the disk has not taken, in all."""
        return self._log.dropped_bytes

    def tail(self) -> str:
        """The last of it. Safe from any thread: the bytes are replaced as a whole."""
        return self._tail.decode(errors="replace")

    def close(self, within_s: float = 2.0) -> bool:
        """Wait for the end, then stop reading. False if the disk hangs; then the thread is left behind."""
        self._thread.join(within_s)
        if self._thread.is_alive():
            os.eventfd_write(self._stop, 1)
            self._thread.join(within_s)
        if self._thread.is_alive():
            return False
        if self._stop >= 0:
            os.close(self._stop)
            self._stop = -1
        return True

    def _read_all(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        try:
            while True:
                if any(descriptor == self._stop for descriptor, _ in poll.poll()):
                    break
                chunk = os.read(self._source, CHUNK_BYTES)
                if not chunk:
                    break
                self._tail = (self._tail + chunk)[-self._tail_bytes :]
                self._log.append(chunk)
        finally:
            os.close(self._source)
            self._log.close()


class _Log:
    """A file, and the ones before it. Every failure of the disk is counted here and raised nowhere."""

    def __init__(self, path: Path, file_bytes: int, files: int) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._files = files
        self._file: int | None = None
        self._size = 0
        self._gap = 0
        """Bytes that are missing since the last that was written."""
        self._problem = ""
        self.dropped_bytes = 0

    def append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                self._tell_of_gap()
                rest = rest[self._write(rest[: self._room(rest)]) :]
            except OSError as error:
                self._give_up(error)
                self._gap += len(rest)
                self.dropped_bytes += len(rest)
                return

    def close(self) -> None:
        try:
            self._tell_of_gap()
        except OSError as error:
            self._give_up(error)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _room(self, data: memoryview) -> int:
        """How much of it goes into the file now; makes room for at least something. Files end with a line if they can."""
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
        self._file = os.open(self._path, flags, 0o600)  # what a job prints is nobody else's business
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

    def _tell_of_gap(self) -> None:
        if self._gap:
            rest = f"\n[holdfast: {self._gap} bytes of output are missing here: {self._problem}]\n".encode()
            while rest:
                rest = rest[self._write(rest) :]
            self._gap = 0

    def _give_up(self, error: OSError) -> None:
        """Begin with a new descriptor next time: the file may have been moved, or the disk mounted again."""
        self._problem = error.strerror or str(error)
        if self._file is not None:
            descriptor, self._file = self._file, None
            with contextlib.suppress(OSError):  # it is closed all the same
                os.close(descriptor)
