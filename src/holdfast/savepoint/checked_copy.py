"""Copying many files at once, each with its checksum."""

import contextlib
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor

from holdfast.savepoint.file_tree import Files
from holdfast.savepoint.manifest import Damaged, File
from holdfast.storage import digest
from holdfast.storage.digest import Write

THREADS = 4
TELL_BYTES = 4 << 20

Advance = Callable[[int], None]
"""Told how many bytes have been copied since it was told last. Called from several threads."""


class Vanished(Exception):
    """A file is gone that was there when the others were listed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def copy(source: Files, target: Files, paths: Iterable[str], advance: Advance) -> Generator[File | Vanished, None, None]:
    """In the order of the paths. Raises what the files raise. Once it is closed, nothing is being written any more."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="copying") as pool:
        try:
            yield from pool.map(lambda path: _copy(source, target, path, advance), paths)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def copy_checked(source: Files, target: Files, files: Iterable[File], advance: Advance) -> None:
    """Raises Damaged for what is not what it should be."""
    wanted = list(files)
    with contextlib.closing(copy(source, target, [file.path for file in wanted], advance)) as copied:
        for file, found in zip(wanted, copied, strict=True):
            if isinstance(found, Vanished):
                raise Damaged(f"{source.shown}/{file.path} is missing")
            if found != file:
                raise Damaged(
                    f"{source.shown}/{file.path} is damaged: {found.size} bytes with the SHA-256 {found.sha256}, "
                    f"and it should be {file.size} with {file.sha256}"
                )


def _copy(source: Files, target: Files, path: str, advance: Advance) -> File | Vanished:
    untold = 0

    def told(piece: memoryview, write: Write) -> None:
        nonlocal untold
        write(piece)
        untold += len(piece)
        if untold >= TELL_BYTES:
            advance(untold)
            untold = 0

    try:
        with source.reading(path) as read_into, target.writing(path) as write:
            sha256, size = digest.copy(read_into, lambda piece: told(piece, write))
    except FileNotFoundError:
        return Vanished(path)
    advance(untold)
    return File(path, size, sha256)
