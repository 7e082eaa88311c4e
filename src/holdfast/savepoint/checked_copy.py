"""Parallel copies of files, with the SHA-256 of each."""

import contextlib
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from holdfast.savepoint.manifest import ManifestFile, SavepointDamaged
from holdfast.storage import digest
from holdfast.storage.digest import Write
from holdfast.storage.filesystem.files import Files

COPY_THREADS = 4
REPORT_EVERY_BYTES = 4 << 20

ReportBytes = Callable[[int], None]
"""Progress callback with the number of bytes copied since its last call. Called from several threads."""


class CopyTarget(Protocol):
    """Location to which files are copied."""

    def open_writer(self, path: str) -> contextlib.AbstractContextManager[Write]: ...


class VanishedFile(Exception):
    """Listed file that was removed before it could be copied."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def copy_files(
    source: Files, target: CopyTarget, paths: Iterable[str], report_bytes: ReportBytes
) -> Generator[ManifestFile | VanishedFile, None, None]:
    """Copy files and yield one result for each path, in order. When the generator is closed, all writing has stopped."""
    with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="savepoint-copy") as pool:
        try:
            yield from pool.map(lambda path: _copy(source, target, path, report_bytes), paths)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def copy_verified(source: Files, target: CopyTarget, files: Iterable[ManifestFile], report_bytes: ReportBytes) -> None:
    """Copy files. Raises SavepointDamaged for a file that is missing or differs from its entry in the manifest.

    Size and SHA-256 are those of the source, even if the target rewrites what it gets.
    """
    expected = list(files)
    with contextlib.closing(copy_files(source, target, [file.path for file in expected], report_bytes)) as copies:
        for file, copied in zip(expected, copies, strict=True):
            if isinstance(copied, VanishedFile):
                raise SavepointDamaged(f"{source.display_name}/{file.path} is missing")
            if copied != file:
                raise SavepointDamaged(
                    f"{source.display_name}/{file.path} is damaged: it has {copied.size} bytes with the SHA-256 "
                    f"{copied.sha256}, but the manifest lists {file.size} bytes with {file.sha256}"
                )


def _copy(source: Files, target: CopyTarget, path: str, report_bytes: ReportBytes) -> ManifestFile | VanishedFile:
    unreported = 0

    def write_and_report(data: memoryview, write: Write) -> None:
        nonlocal unreported
        write(data)
        unreported += len(data)
        if unreported >= REPORT_EVERY_BYTES:
            report_bytes(unreported)
            unreported = 0

    try:
        with source.open_reader(path) as read_into, target.open_writer(path) as write:
            sha256, size = digest.copy_and_hash(read_into, lambda data: write_and_report(data, write))
    except FileNotFoundError:
        return VanishedFile(path)
    report_bytes(unreported)
    return ManifestFile(path, size, sha256)
