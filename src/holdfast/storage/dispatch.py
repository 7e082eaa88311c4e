"""Which code answers a call, and in which process."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from holdfast.storage import blobs, checkpoint_examiner, claim_book
from holdfast.storage.filesystem.files import Files, LocalFiles
from holdfast.storage.filesystem.folder import OpenFolder
from holdfast.storage.filesystem.local_folder import open_local
from holdfast.storage.location import Location

Note = Callable[[str], None]
SILENCE_S = 60.0
"""How long a store that needs pyarrow may move no byte and give no answer. pyarrow alone would wait for minutes."""


class Caller(Protocol):
    def __call__(self, method: str, **arguments: Any) -> Any:
        """Arguments and result are plain values, as JSON has them."""


def caller(location: Location, folder: str, *, apart: bool, silence_s: float, note: Note = lambda _sentence: None) -> Caller:
    if apart and not location.is_directory:
        from holdfast.storage.subprocess_call import call_apart

        return functools.partial(call_apart, location, folder, note, silence_s)
    return functools.partial(call_here, location, folder, note)


def call_here(location: Location, folder: str, note: Note, method: str, **arguments: Any) -> Any:
    if folder == checkpoint_examiner.FOLDER:
        return getattr(checkpoint_examiner.Examiner(_files(location)), method)(**arguments)
    opener = _opener(location, folder)
    if folder == blobs.FOLDER:
        return getattr(blobs.Blobs(opener, location.shown), method)(**arguments)
    if folder == claim_book.FOLDER:
        return getattr(claim_book.ClaimBook(opener, location.shown, note), method)(**arguments)
    raise ValueError(f"there is no folder {folder!r} in a storage")


def _opener(location: Location, folder: str) -> OpenFolder:
    if location.is_directory:
        # A checkpoint is made by whoever claims it first. The storage is not: it may only be not mounted.
        make_root = folder == claim_book.FOLDER
        return functools.partial(open_local, Path(location.path), folder, make_root=make_root)
    from holdfast.storage.filesystem.remote_folder import open_remote

    return functools.partial(open_remote, location, folder)


def _files(location: Location) -> Files:
    if location.is_directory:
        return LocalFiles(Path(location.path))
    from holdfast.storage.filesystem.remote_files import RemoteFiles

    return RemoteFiles(location)
