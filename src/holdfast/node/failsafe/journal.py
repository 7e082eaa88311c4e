"""Append-only file of promises with group commit: a thread writes and fsyncs, never the event loop."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

COMMIT_INTERVAL_S = 0.1
"""Minimum time between the begins of two commits. Records that arrive meanwhile share one fsync."""
COMPACTION_BYTES = 1 << 20
"""Size from which the journal is replaced by its content, if that is much shorter."""
COMPACTION_FACTOR = 8

MakeHeader = Callable[[], bytes]


class Journal(Protocol):
    """Storage of promises; implemented by `PromiseJournal`."""

    def read(self) -> bytes:
        """Return the journal. Raises FileNotFoundError if this node has never made a promise, and OSError."""

    async def append(self, record: bytes, make_header: MakeHeader) -> None:
        """Return when the record is on disk. Raises OSError if it is not. `make_header` encodes all promises in force."""


class PromiseJournal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._compact_at = 0
        """Size at which the file is replaced. The first commit of a process replaces the file."""
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._make_header: MakeHeader = bytes
        self._commits: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="promises")
        """Own thread: the default threads may all be busy with killing processes."""
        self.commit_count = 0

    def read(self) -> bytes:
        return self._path.read_bytes()

    async def append(self, record: bytes, make_header: MakeHeader) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, done))
        self._make_header = make_header
        if self._commits is None:
            self._commits = asyncio.ensure_future(self._commit_waiting())
        await done

    async def _commit_waiting(self) -> None:
        """Commit all waiting records together, and repeat that until none is left."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                next_at = loop.time() + COMMIT_INTERVAL_S
                batch, self._waiting = self._waiting, []
                error = await self._commit([record for record, _ in batch])
                for _, done in batch:
                    _resolve(done, error)
                await asyncio.sleep(next_at - loop.time())
        finally:
            self._commits = None

    async def _commit(self, records: list[bytes]) -> OSError | None:
        self.commit_count += 1
        loop = asyncio.get_running_loop()
        try:
            if self._size >= self._compact_at:
                # The header contains the waiting records too, because promises are in force before they are saved.
                await loop.run_in_executor(self._thread, self._replace, self._make_header())
            else:
                await loop.run_in_executor(self._thread, self._append, b"".join(records))
        except OSError as error:
            self._compact_at = 0  # the end of the file is unknown: replace it
            return error
        return None

    def _append(self, data: bytes) -> None:
        with open(os.open(self._path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:
            try:
                _write_all(file.fileno(), data)
                os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file.fileno(), self._size)  # an incomplete line would look like damage
                raise
        self._size += len(data)

    def _replace(self, data: bytes) -> None:
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        temporary.unlink(missing_ok=True)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(self._path)
            _sync_directory(self._path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._size, self._compact_at = len(data), max(COMPACTION_BYTES, COMPACTION_FACTOR * len(data))


def _resolve(done: "asyncio.Future[None]", error: OSError | None) -> None:
    if done.done():
        return  # the request was cancelled
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_directory(path: Path) -> None:
    """Make a rename durable: without it, a power failure could undo the node's first promise."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
