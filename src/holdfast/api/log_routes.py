"""Driver logs of this node: `GET /v1/jobs/JOB/logs`. Requires the cluster's secret.

A log consists of several files, the newest named `driver.log`, which are rotated and deleted while clients read. The `offset`
of requests and responses therefore holds the file's inode, a checksum of the file's first bytes, and the offset in the file.
"""

import contextlib
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holdfast.api.authorization import ReadSecret, authorization_error
from holdfast.model.identifiers import Attempt, JobId, is_valid_name
from holdfast.runner.attempt_layout import CLOSED_MARKER, DRIVER_LOG, OUTCOME_FILE, attempt_directory

NEXT_OFFSET_HEADER = "Holdfast-Next-Offset"
ATTEMPT_OVER_HEADER = "Holdfast-Attempt-Over"
"""`true` once the log is complete."""
ATTEMPT_HEADER = "Holdfast-Attempt"
GAP_HEADER = "Holdfast-Gap"
"""`true` if the data at the requested offset was deleted before the client read it."""

CHUNK_BYTES = 256 * 1024
CHUNK_BYTES_MAX = 1024 * 1024
TAIL_BYTES_MAX = 4 * 1024 * 1024
TAIL_LINES_MAX = 1_000_000
PREFIX_BYTES = 64
OPEN_RETRIES_MAX = 5

_NUMBER = re.compile("[0-9]{1,9}")
_POSITION = re.compile("([0-9]{1,20})-([0-9]{1,10})-([0-9]{1,15})")
_LOG_FILE_NAME = re.compile(re.escape(DRIVER_LOG) + r"(?:\.([0-9]{1,4}))?")


def routes(attempts: Path, secret: ReadSecret) -> list[Route]:
    # Not a coroutine: Starlette runs it in a thread, where disk I/O may block.
    def logs(request: Request) -> Response:
        error = authorization_error(request, secret)
        return error if error is not None else _read_logs(request, attempts)

    return [Route("/v1/jobs/{job}/logs", logs)]


def _error(code: int, message: str) -> Response:
    return PlainTextResponse(message, status_code=code)


def _read_logs(request: Request, attempts: Path) -> Response:
    job, query = request.path_params["job"], request.query_params
    for name in ("attempt", "limit", "tail"):
        if name in query and _NUMBER.fullmatch(query[name]) is None:
            return _error(400, f"'{name}' must be a number")
    if "offset" in query and query["offset"] != "0" and _POSITION.fullmatch(query["offset"]) is None:
        return _error(400, f"'offset' must be 0, or the {NEXT_OFFSET_HEADER} of an earlier response")
    attempt = Attempt(int(query["attempt"])) if "attempt" in query else _newest_attempt(attempts, job)
    directory = attempt_directory(attempts, JobId(job), attempt) if is_valid_name(job) and attempt is not None else None
    if directory is None or not directory.is_dir():
        which = f"attempt {attempt}" if attempt is not None else "any attempt"
        return _error(404, f"this node has no log of {which} of job {job}")
    # Check this before reading the files: the log of a finished attempt is then complete.
    over = (directory / OUTCOME_FILE).exists() or (directory / CLOSED_MARKER).exists()
    limit = max(1, min(int(query.get("limit", CHUNK_BYTES)), CHUNK_BYTES_MAX))
    with _open_log(directory) as files:
        log = DriverLog(files)
        position, gap = log.find_position(query.get("offset", "0"))
        if "tail" in query:
            position = log.find_tail(int(query["tail"]))
        data, position = log.read(position, limit)
        headers = {
            NEXT_OFFSET_HEADER: log.encode_position(position),
            ATTEMPT_OVER_HEADER: _header_bool(over),
            GAP_HEADER: _header_bool(gap),
            ATTEMPT_HEADER: str(attempt),
        }
    return Response(data, media_type="application/octet-stream", headers=headers)


def _header_bool(value: bool) -> str:
    return "true" if value else "false"


def _newest_attempt(attempts: Path, job: str) -> Attempt | None:
    """Return the newest attempt of the job that has a directory on this node."""
    try:
        names = os.listdir(attempts / job) if is_valid_name(job) else []
    except OSError:
        return None
    return max((Attempt(int(name)) for name in names if _NUMBER.fullmatch(name)), default=None)


@dataclass(frozen=True, slots=True)
class LogFile:
    descriptor: int
    inode: int


@dataclass(frozen=True, slots=True)
class LogPosition:
    file: int
    """Index of the file; the oldest file is 0."""
    offset: int


class DriverLog:
    """Open log files of one attempt. Rotation does not affect open files."""

    def __init__(self, files: list[LogFile]) -> None:
        self._files = files

    def find_position(self, offset: str) -> tuple[LogPosition, bool]:
        """Return the current position of an encoded offset, and True if its data was deleted.

        In that case the position is the start of the oldest file.
        """
        match = _POSITION.fullmatch(offset)
        if match is None:
            return LogPosition(0, 0), False
        inode, checksum, position = map(int, match.groups())
        for index, file in enumerate(self._files):
            # The inode of a deleted file may have been reused for a newer file, so compare the checksum too.
            if file.inode == inode and self._file_size(file) >= position and self._prefix_checksum(file, position) == checksum:
                return LogPosition(index, position), False
        return LogPosition(0, 0), True

    def encode_position(self, position: LogPosition) -> str:
        if not self._files:
            return "0"
        file = self._files[position.file]
        return f"{file.inode}-{self._prefix_checksum(file, position.offset)}-{position.offset}"

    def read(self, position: LogPosition, limit: int) -> tuple[bytes, LogPosition]:
        """Return at most `limit` bytes, which may span several files, and the position after them."""
        parts: list[bytes] = []
        while position.file < len(self._files) and limit > 0:
            data = os.pread(self._files[position.file].descriptor, limit, position.offset)
            parts.append(data)
            limit -= len(data)
            position = LogPosition(position.file, position.offset + len(data))
            if not data:
                if position.file + 1 >= len(self._files):
                    break
                position = LogPosition(position.file + 1, 0)
        return b"".join(parts), position

    def find_tail(self, lines: int) -> LogPosition:
        """Return the start of the last `lines` lines, searching at most about `TAIL_BYTES_MAX` bytes."""
        position = self._end_position()
        remaining, searched, last = min(lines, TAIL_LINES_MAX), 0, True
        while remaining > 0 and searched < TAIL_BYTES_MAX:
            data, start = self._read_before(position)
            if not data:
                break
            searched += len(data)
            # A newline at the end of the log ends the last line and starts no other.
            cut = len(data) - (last and data.endswith(b"\n"))
            last = False
            while remaining > 0 and (cut := data.rfind(b"\n", 0, cut)) >= 0:
                remaining -= 1
                position = LogPosition(start.file, start.offset + cut + 1)
            if remaining > 0:
                position = start
        return position

    def _end_position(self) -> LogPosition:
        return LogPosition(len(self._files) - 1, self._file_size(self._files[-1])) if self._files else LogPosition(0, 0)

    def _read_before(self, position: LogPosition) -> tuple[bytes, LogPosition]:
        """Return up to `CHUNK_BYTES` bytes before the position and their start; no bytes at the start of the log."""
        while position.offset == 0 and position.file > 0:
            position = LogPosition(position.file - 1, self._file_size(self._files[position.file - 1]))
        start = LogPosition(position.file, max(0, position.offset - CHUNK_BYTES))
        size = position.offset - start.offset
        return os.pread(self._files[position.file].descriptor, size, start.offset) if size else b"", start

    @staticmethod
    def _file_size(file: LogFile) -> int:
        return os.fstat(file.descriptor).st_size

    @staticmethod
    def _prefix_checksum(file: LogFile, position: int) -> int:
        return zlib.crc32(os.pread(file.descriptor, min(position, PREFIX_BYTES), 0))


@contextlib.contextmanager
def _open_log(directory: Path) -> Iterator[list[LogFile]]:
    """Open all files of the log, oldest first, as a consistent set: open them again if a rotation happened meanwhile."""
    with contextlib.ExitStack() as stack:
        files: list[LogFile] = []
        for _ in range(OPEN_RETRIES_MAX):
            stack.close()
            names = _list_log_files(directory)
            files = [file for name in names if (file := _open_file(directory / name, stack)) is not None]
            inodes = [_read_inode(directory / name) for name in names]
            if _list_log_files(directory) == names and inodes == [file.inode for file in files]:
                break
        yield files


def _list_log_files(directory: Path) -> list[str]:
    matches = [match for name in os.listdir(directory) if (match := _LOG_FILE_NAME.fullmatch(name)) is not None]
    return [match[0] for match in sorted(matches, key=lambda match: int(match[1] or 0), reverse=True)]


def _open_file(path: Path, stack: contextlib.ExitStack) -> LogFile | None:
    """Open a regular file. Return None for any other kind, such as a pipe, on which reading would block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    stack.callback(os.close, descriptor)
    status = os.fstat(descriptor)
    return LogFile(descriptor, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _read_inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None
