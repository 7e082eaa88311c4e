"""What the drivers of this node have printed: `GET /v1/jobs/JOB/logs`, for whoever knows the cluster's secret.

A log is a handful of files, the newest called `driver.log`, which are renamed and dropped while somebody reads. A reader's
place is therefore a file, by its inode and how it begins, and a position in it; in query and answer it is one word, `offset`.
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

from holdfast.api.authorization import Secret, refusal
from holdfast.model.identifiers import Attempt, JobId, is_name
from holdfast.runner.attempt_layout import BURIED, DRIVER_LOG, OUTCOME, attempt_directory

NEXT = "Holdfast-Next-Offset"
OVER = "Holdfast-Attempt-Over"
"""`true` once nothing will be added any more."""
ATTEMPT = "Holdfast-Attempt"
GAP = "Holdfast-Gap"
"""`true` if what came before was dropped before it was read."""

CHUNK_BYTES = 256 * 1024
CHUNK_BYTES_MAX = 1024 * 1024
TAIL_BYTES_MAX = 4 * 1024 * 1024
TAIL_LINES_MAX = 1_000_000
BEGINNING_BYTES = 64
LOOKS_MAX = 5

_NUMBER = re.compile("[0-9]{1,9}")
_PLACE = re.compile("([0-9]{1,20})-([0-9]{1,10})-([0-9]{1,15})")
_ROTATED = re.compile(re.escape(DRIVER_LOG) + r"(?:\.([0-9]{1,4}))?")


def routes(attempts: Path, secret: Secret) -> list[Route]:
    # Not a coroutine: Starlette runs it on a thread, where it may wait for the disk.
    def logs(request: Request) -> Response:
        denied = refusal(request, secret)
        return denied if denied is not None else _answer(request, attempts)

    return [Route("/v1/jobs/{job}/logs", logs)]


def _problem(code: int, sentence: str) -> Response:
    return PlainTextResponse(sentence, status_code=code)


def _answer(request: Request, attempts: Path) -> Response:
    job, query = request.path_params["job"], request.query_params
    for name in ("attempt", "limit", "tail"):
        if name in query and _NUMBER.fullmatch(query[name]) is None:
            return _problem(400, f"'{name}' must be a number")
    if "offset" in query and query["offset"] != "0" and _PLACE.fullmatch(query["offset"]) is None:
        return _problem(400, f"'offset' must be 0, or what an earlier answer had as {NEXT}")
    attempt = Attempt(int(query["attempt"])) if "attempt" in query else _last(attempts, job)
    directory = attempt_directory(attempts, JobId(job), attempt) if is_name(job) and attempt is not None else None
    if directory is None or not directory.is_dir():
        which = f"attempt {attempt}" if attempt is not None else "any attempt"
        return _problem(404, f"this node has nothing of {which} of job {job}")
    # Before the files are looked at: what is over then has been written as a whole.
    over = (directory / OUTCOME).exists() or (directory / BURIED).exists()
    limit = max(1, min(int(query.get("limit", CHUNK_BYTES)), CHUNK_BYTES_MAX))
    with _opened(directory) as files:
        log = Log(files)
        place, gap = log.find(query.get("offset", "0"))
        if "tail" in query:
            place = log.tail(int(query["tail"]))
        data, place = log.read(place, limit)
        headers = {NEXT: log.name(place), OVER: _word(over), GAP: _word(gap), ATTEMPT: str(attempt)}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _word(value: bool) -> str:
    return "true" if value else "false"


def _last(attempts: Path, job: str) -> Attempt | None:
    """The newest attempt of this job that was here."""
    try:
        names = os.listdir(attempts / job) if is_name(job) else []
    except OSError:
        return None
    return max((Attempt(int(name)) for name in names if _NUMBER.fullmatch(name)), default=None)


@dataclass(frozen=True, slots=True)
class LogFile:
    descriptor: int
    inode: int


@dataclass(frozen=True, slots=True)
class Place:
    file: int
    """Which of the open files, the oldest first."""
    position: int


class Log:
    """The files of one attempt, open, so that nothing is renamed under the reader."""

    def __init__(self, files: list[LogFile]) -> None:
        self._files = files

    def find(self, word: str) -> tuple[Place, bool]:
        """Where that is now, and whether it was dropped meanwhile. Then the reader goes on with what there is."""
        match = _PLACE.fullmatch(word)
        if match is None:
            return Place(0, 0), False
        inode, beginning, position = map(int, match.groups())
        for index, file in enumerate(self._files):
            # A dropped file's inode may be a newer file's by now.
            if file.inode == inode and self._size(file) >= position and self._beginning(file, position) == beginning:
                return Place(index, position), False
        return Place(0, 0), True

    def name(self, place: Place) -> str:
        if not self._files:
            return "0"
        file = self._files[place.file]
        return f"{file.inode}-{self._beginning(file, place.position)}-{place.position}"

    def read(self, place: Place, limit: int) -> tuple[bytes, Place]:
        """At most `limit` bytes, over as many files as it takes, and the place behind them."""
        parts: list[bytes] = []
        while place.file < len(self._files) and limit > 0:
            data = os.pread(self._files[place.file].descriptor, limit, place.position)
            parts.append(data)
            limit -= len(data)
            place = Place(place.file, place.position + len(data))
            if not data:
                if place.file + 1 >= len(self._files):
                    break
                place = Place(place.file + 1, 0)
        return b"".join(parts), place

    def tail(self, lines: int) -> Place:
        """Where the last lines begin, as far as it is worth looking."""
        place = self._end()
        left, looked, last = min(lines, TAIL_LINES_MAX), 0, True
        while left > 0 and looked < TAIL_BYTES_MAX:
            data, start = self._before(place)
            if not data:
                break
            looked += len(data)
            # The end of the last line does not begin another one.
            cut = len(data) - (last and data.endswith(b"\n"))
            last = False
            while left > 0 and (cut := data.rfind(b"\n", 0, cut)) >= 0:
                left -= 1
                place = Place(start.file, start.position + cut + 1)
            if left > 0:
                place = start
        return place

    def _end(self) -> Place:
        return Place(len(self._files) - 1, self._size(self._files[-1])) if self._files else Place(0, 0)

    def _before(self, place: Place) -> tuple[bytes, Place]:
        """What stands before a place, a piece of it, and where that begins. Empty at the beginning of the log."""
        while place.position == 0 and place.file > 0:
            place = Place(place.file - 1, self._size(self._files[place.file - 1]))
        start = Place(place.file, max(0, place.position - CHUNK_BYTES))
        size = place.position - start.position
        return os.pread(self._files[place.file].descriptor, size, start.position) if size else b"", start

    @staticmethod
    def _size(file: LogFile) -> int:
        return os.fstat(file.descriptor).st_size

    @staticmethod
    def _beginning(file: LogFile, position: int) -> int:
        return zlib.crc32(os.pread(file.descriptor, min(position, BEGINNING_BYTES), 0))


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[list[LogFile]]:
    """All files of the log, the oldest first, as they were at one moment: if one was renamed meanwhile, all again."""
    with contextlib.ExitStack() as stack:
        files: list[LogFile] = []
        for _ in range(LOOKS_MAX):
            stack.close()
            names = _names(directory)
            files = [file for name in names if (file := _open(directory / name, stack)) is not None]
            if _names(directory) == names and [_inode(directory / name) for name in names] == [file.inode for file in files]:
                break
        yield files


def _names(directory: Path) -> list[str]:
    matches = [match for name in os.listdir(directory) if (match := _ROTATED.fullmatch(name)) is not None]
    return [match[0] for match in sorted(matches, key=lambda match: int(match[1] or 0), reverse=True)]


def _open(path: Path, stack: contextlib.ExitStack) -> LogFile | None:
    """Only a plain file: a driver can put anything else in its place, such as a pipe that nobody writes to."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    stack.callback(os.close, descriptor)
    found = os.fstat(descriptor)
    return LogFile(descriptor, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None
