"""Upload the files of a job into the cluster's storage."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from holdfast.client.callbacks import Callbacks
from holdfast.client.connection.storage_location import read_storage_location
from holdfast.client.connection.target import Target
from holdfast.errors import HoldfastError
from holdfast.storage import Storage, open_storage

Result = TypeVar("Result")

Blobs = Mapping[Path, str]
"""SHA-256 of each uploaded file."""


def upload_and_record(
    target: Target, files: tuple[Path, ...], record: Callable[[Blobs], Result], callbacks: Callbacks
) -> Result:
    """Upload files, call `record` to write the znodes that refer to them, then make sure that they still exist.

    The last step repeats uploads that garbage collection removed before the znodes were written.
    """
    storage = open_storage(read_storage_location(target))
    blobs = {file: _upload(storage, file, callbacks) for file in files}
    result = record(blobs)
    _ensure(storage, blobs, callbacks)
    return result


def _upload(storage: Storage, file: Path, callbacks: Callbacks) -> str:
    with callbacks.copying(f"storing {file.name}") as begin:
        size = _file_size(file)
        advance = begin(size)
        blob = storage.put(file)
        advance(size)
        return blob


def _file_size(file: Path) -> int:
    """Return the size for the progress display, 0 if the file cannot be read: the upload then raises the error."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _ensure(storage: Storage, blobs: Blobs, callbacks: Callbacks) -> None:
    try:
        for file, digest in blobs.items():
            storage.ensure_stored(file, digest)
    except HoldfastError as error:
        callbacks.note(f"done, but the storage could not be checked for the uploaded files: {error}")
