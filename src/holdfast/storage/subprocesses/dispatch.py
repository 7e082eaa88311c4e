"""Typed calls to the storage services, in this process or in a subprocess.

A service is a class with plain methods: `Blobs`, `ClaimBook`, `LocationClaimBook`, `CheckpointExaminer` and
`CheckpointRemover`. A caller passes one of these methods and its keyword arguments, so the type checker sees both. Arguments
and results consist of JSON values, because a location that needs pyarrow is served by a subprocess (see `subprocess_call`).
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from holdfast.checkpoint import metadata_files
from holdfast.storage import blobs
from holdfast.storage.blobs import Blobs
from holdfast.storage.checkpoint_examiner import CheckpointExaminer
from holdfast.storage.checkpoint_removal import CheckpointRemover
from holdfast.storage.claim_book import ClaimBook
from holdfast.storage.filesystem.files import open_files
from holdfast.storage.filesystem.folder import OpenFolder
from holdfast.storage.filesystem.local_folder import open_local_folder
from holdfast.storage.location import Location
from holdfast.storage.location_claim_book import LocationClaimBook

Warn = Callable[[str], None]
"""Callback for a sentence about a record that could not be read and is ignored."""
Service = TypeVar("Service")
Service_co = TypeVar("Service_co", covariant=True)
Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")
STALL_TIMEOUT_S = 60.0
"""Seconds without progress after which a subprocess call is killed. pyarrow itself would wait for minutes."""

OPERATIONS: Mapping[str, Callable[..., Any]] = {
    operation.__qualname__: operation
    for operation in (
        Blobs.put,
        Blobs.ensure_stored,
        Blobs.fetch,
        Blobs.has,
        Blobs.require_folder,
        Blobs.list_blobs,
        Blobs.remove,
        Blobs.remove_older,
        ClaimBook.claim,
        ClaimBook.read_owner,
        ClaimBook.list_attempts,
        ClaimBook.write_outcome,
        ClaimBook.read_outcome,
        ClaimBook.read_outcomes_since,
        ClaimBook.read_latest_outcome,
        ClaimBook.read_metadata,
        ClaimBook.write_metadata,
        ClaimBook.remove_metadata,
        LocationClaimBook.claim_location,
        LocationClaimBook.describe_claim,
        LocationClaimBook.write_location_outcome,
        CheckpointExaminer.examine,
        CheckpointExaminer.judge,
        CheckpointExaminer.examine_sink,
        CheckpointExaminer.read_position,
        CheckpointExaminer.rewrite_files,
        CheckpointExaminer.adopt_schema_files,
        CheckpointExaminer.set_aside,
        CheckpointRemover.remove_owned,
        CheckpointExaminer.set_leftovers_aside,
    )
}
"""Operations that a subprocess accepts, by qualified name."""


class Caller(Protocol[Service_co]):
    """Function that runs one operation of a service and returns its result."""

    def __call__(
        self,
        operation: Callable[Concatenate[Service_co, Arguments], Value],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Value: ...


class LocalCaller(Generic[Service]):
    """Caller of a service in this process."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(
        self, operation: Callable[Concatenate[Service, Arguments], Value], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Value:
        return operation(self._service, *args, **kwargs)


class SubprocessCaller(Generic[Service]):
    """Caller of a service in a subprocess that ends after the call. Takes keyword arguments only."""

    def __init__(self, location: Location, warn: Warn, stall_timeout_s: float) -> None:
        self._location = location
        self._warn = warn
        self._stall_timeout_s = stall_timeout_s

    def __call__(
        self, operation: Callable[Concatenate[Service, Arguments], Value], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Value:
        from holdfast.storage.subprocesses.subprocess_call import call_in_subprocess

        assert not args, "a subprocess takes keyword arguments only"
        value: Value = call_in_subprocess(self._location, operation.__qualname__, kwargs, self._warn, self._stall_timeout_s)
        return value


def _ignore(_sentence: str) -> None:
    pass


def blobs_caller(location: Location, *, in_subprocess: bool, stall_timeout_s: float) -> Caller[Blobs]:
    if in_subprocess and not location.is_directory:
        return SubprocessCaller(location, _ignore, stall_timeout_s)
    return LocalCaller(open_blobs(location))


def claims_caller(location: Location, *, in_subprocess: bool, stall_timeout_s: float, warn: Warn) -> Caller[ClaimBook]:
    if in_subprocess and not location.is_directory:
        return SubprocessCaller(location, warn, stall_timeout_s)
    return LocalCaller(open_claim_book(location, warn))


def location_claims_caller(
    location: Location, *, in_subprocess: bool, stall_timeout_s: float, warn: Warn
) -> Caller[LocationClaimBook]:
    if in_subprocess and not location.is_directory:
        return SubprocessCaller(location, warn, stall_timeout_s)
    return LocalCaller(open_location_claim_book(location, warn))


def examiner_caller(location: Location, *, in_subprocess: bool, stall_timeout_s: float) -> Caller[CheckpointExaminer]:
    if in_subprocess and not location.is_directory:
        return SubprocessCaller(location, _ignore, stall_timeout_s)
    return LocalCaller(open_examiner(location))


def remover_caller(location: Location, *, in_subprocess: bool, stall_timeout_s: float) -> Caller[CheckpointRemover]:
    if in_subprocess and not location.is_directory:
        return SubprocessCaller(location, _ignore, stall_timeout_s)
    return LocalCaller(open_remover(location))


def open_blobs(location: Location) -> Blobs:
    return Blobs(_opener(location, blobs.FOLDER, make_root=False), location.display_name)


def open_claim_book(location: Location, warn: Warn) -> ClaimBook:
    """Open the claims of a checkpoint. The first claim creates the directory of the checkpoint."""
    return ClaimBook(_opener(location, metadata_files.FOLDER, make_root=True), location.display_name, warn)


def open_location_claim_book(location: Location, warn: Warn) -> LocationClaimBook:
    return LocationClaimBook(_opener(location, metadata_files.FOLDER, make_root=True), location.display_name, warn)


def open_examiner(location: Location) -> CheckpointExaminer:
    return CheckpointExaminer(open_files(location))


def open_remover(location: Location) -> CheckpointRemover:
    return CheckpointRemover(open_files(location))


def run_operation(name: str, location: Location, arguments: Mapping[str, Any], warn: Warn) -> Any:
    """Run an operation that another process has named. Raises ValueError for an unknown one."""
    if name not in OPERATIONS:
        raise ValueError(f"unknown storage operation {name!r}")
    services: Mapping[str, Callable[[], object]] = {
        Blobs.__name__: lambda: open_blobs(location),
        ClaimBook.__name__: lambda: open_claim_book(location, warn),
        LocationClaimBook.__name__: lambda: open_location_claim_book(location, warn),
        CheckpointExaminer.__name__: lambda: open_examiner(location),
        CheckpointRemover.__name__: lambda: open_remover(location),
    }
    return OPERATIONS[name](services[name.partition(".")[0]](), **arguments)


def _opener(location: Location, folder: str, *, make_root: bool) -> OpenFolder:
    """Return a function that opens a folder. `make_root` is False for the storage: a missing root may be an unmounted disk."""
    if location.is_directory:
        return functools.partial(open_local_folder, Path(location.path), folder, make_root=make_root)
    from holdfast.storage.filesystem.remote_folder import open_remote_folder

    return functools.partial(open_remote_folder, location, folder)
