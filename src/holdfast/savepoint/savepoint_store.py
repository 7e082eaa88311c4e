"""Savepoints of a cluster: create, list, remove and restore them."""

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.errors import Refused, Unavailable
from holdfast.savepoint.checked_copy import CopyTarget, ReportBytes, copy_files, copy_verified
from holdfast.savepoint.manifest import Manifest, ManifestFile
from holdfast.savepoint.relocated_files import relocate
from holdfast.savepoint.selection import FileSelection, last_committed_batches, select_files
from holdfast.storage.filesystem.files import Files, open_files
from holdfast.storage.location import CHECKPOINTS, parse_location

FOLDER = "savepoints"
DATA = "data"
MANIFEST = "manifest.json"
COPY_ATTEMPTS_MAX = 3
RECENT_BATCHES = 50
"""Batches whose files a savepoint of a running job must contain. Spark keeps 100 and removes older files meanwhile."""
_ID = re.compile("s[0-9a-f]{12}")

StartProgress = Callable[[int], ReportBytes]
"""Callback with the total number of bytes, before the copy starts. Returns the callback for progress."""

CopiedFiles = tuple[FileSelection, tuple[ManifestFile, ...]]


def _no_progress(_bytes: int) -> ReportBytes:
    return lambda _more: None


def is_savepoint_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class SavepointSource:
    """Job whose checkpoint is copied."""

    job: str
    name: str
    version: int
    ancestors: tuple[str, ...]
    running: bool


class SavepointStore:
    """Savepoints in the storage of one cluster. Every method raises Unavailable if the storage cannot be used."""

    def __init__(self, storage: str) -> None:
        self._location = parse_location(storage)

    def _checkpoint(self, job: str) -> Files:
        return open_files(self._location.join(CHECKPOINTS, job))

    def _spark_root(self, job: str) -> str:
        """Return the root of a job's checkpoint as Spark names it."""
        return self._location.join(CHECKPOINTS, job).spark_uri

    def _savepoint(self, id: str) -> Files:
        return open_files(self._location.join(FOLDER, id))

    def create(self, source: SavepointSource, *, by: str, start_progress: StartProgress = _no_progress) -> Manifest:
        """Copy a job's checkpoint. Raises Refused if no batch is committed. Removes the incomplete copy on an error."""
        started = time.monotonic()
        id = f"s{secrets.token_hex(6)}"
        folder = self._savepoint(id)
        try:
            selection, files = self._copy_with_retries(source, folder.subtree(DATA), start_progress)
            folder.sync()
            manifest = Manifest(
                id=id,
                job=source.job,
                name=source.name,
                ancestors=source.ancestors,
                version=source.version,
                made_wall_s=time.time(),
                by=by,
                took_s=round(time.monotonic() - started, 3),
                running=source.running,
                batches=selection.batches,
                files=files,
                location=self._spark_root(source.job),
            )
            with folder.open_writer(MANIFEST) as write:
                write(memoryview(manifest.encode()))
            folder.sync()
        except BaseException:
            with contextlib.suppress(Unavailable, OSError):
                folder.remove_tree()
            raise
        return manifest

    def _copy_with_retries(self, source: SavepointSource, folder: Files, start_progress: StartProgress) -> CopiedFiles:
        for _ in range(COPY_ATTEMPTS_MAX):
            copied = self._copy_selected(source, self._select(source), folder, start_progress)
            if copied is not None:
                return copied
            folder.remove_tree()
        raise Unavailable(
            f"{source.name} removes files faster than its checkpoint can be copied: "
            f"run 'holdfast stop {source.job} --savepoint'"
        )

    def _select(self, source: SavepointSource) -> "_SelectedFiles":
        """Return the files to copy. Raises Refused if no batch is committed."""
        checkpoint = self._checkpoint(source.job)
        batches = last_committed_batches(_file_sizes(checkpoint))
        if not batches:
            raise Refused(f"{source.name} has not committed a batch in {checkpoint.display_name}: there is nothing to save")
        sizes = _file_sizes(checkpoint)  # list again: now all files of these batches exist
        selection = select_files(sizes, batches, running=source.running)
        return _SelectedFiles(checkpoint, selection, sum(sizes[path] for path in selection.files))

    def _copy_selected(
        self, source: SavepointSource, selected: "_SelectedFiles", target: CopyTarget, start_progress: StartProgress
    ) -> CopiedFiles | None:
        """Copy the selected files and return them, or None if a needed file was removed during the copy."""
        checkpoint, selection = selected.checkpoint, selected.selection
        report_bytes = start_progress(selected.size)
        files: list[ManifestFile] = []
        with contextlib.closing(copy_files(checkpoint, target, selection.files, report_bytes)) as copies:
            for copied in copies:
                if isinstance(copied, ManifestFile):
                    files.append(copied)
                elif not source.running or selection.is_needed(copied.path, RECENT_BATCHES):
                    break
            else:
                return selection, tuple(files)
        return None

    def list_all(self) -> list[Manifest]:
        """Return the complete savepoints, the oldest first."""
        ids = filter(is_savepoint_id, open_files(self._location.join(FOLDER)).list_folders())
        return sorted(
            (manifest for id in ids if (manifest := self._read(id)) is not None), key=lambda manifest: manifest.made_wall_s
        )

    def find(self, id: str) -> Manifest:
        """Return a savepoint. Raises Refused if it does not exist."""
        manifest = self._read(id) if is_savepoint_id(id) else None
        if manifest is None:
            raise Refused(f"there is no savepoint '{id}': run 'holdfast savepoint ls' to list them")
        return manifest

    def _read(self, id: str) -> Manifest | None:
        """Return the manifest, or None if the savepoint was never completed. Raises SavepointDamaged."""
        folder = self._savepoint(id)
        try:
            return Manifest.decode(folder.read(MANIFEST), f"{folder.display_name}/{MANIFEST}")
        except FileNotFoundError:
            return None

    def remove(self, id: str) -> None:
        """Remove a savepoint, its manifest first: without a manifest, a partly removed folder is not a savepoint."""
        self.find(id)
        folder = self._savepoint(id)
        folder.remove_file(MANIFEST)
        folder.remove_tree()

    def restore(self, manifest: Manifest, job: str, start_progress: StartProgress = _no_progress) -> None:
        """Copy a savepoint into the checkpoint of a new job, whose metadata then names paths in this checkpoint.

        Raises SavepointDamaged if a file differs from the manifest.
        """
        data = self._savepoint(manifest.id).subtree(DATA)
        with self._new_checkpoint(job) as checkpoint:
            old_roots = (manifest.location, self._spark_root(manifest.job))
            target = relocate(checkpoint, old_roots, self._spark_root(job), [file.path for file in manifest.files])
            copy_verified(data, target, manifest.files, start_progress(manifest.size))
            target.remove_stale_checksums()

    def copy_checkpoint(
        self, source: SavepointSource, job: str, start_progress: StartProgress = _no_progress
    ) -> dict[str, int]:
        """Copy the checkpoint of a job that is not running to a new job. Return the last batch of each query.

        The metadata of the copy names paths in the copy.
        """
        with self._new_checkpoint(job) as checkpoint:
            selected = self._select(source)
            target = relocate(checkpoint, (self._spark_root(source.job),), self._spark_root(job), selected.selection.files)
            if self._copy_selected(source, selected, target, start_progress) is None:
                raise Unavailable(f"the checkpoint of {source.name} changed while it was copied: is the job running?")
            target.remove_stale_checksums()
            return selected.selection.batches

    @contextlib.contextmanager
    def _new_checkpoint(self, job: str) -> Iterator[Files]:
        """Yield the empty checkpoint of a new job. Raises Refused if it is not empty. Remove it on an error."""
        checkpoint = self._checkpoint(job)
        if checkpoint.walk(1)[0]:
            raise Refused(f"cannot copy a checkpoint to {checkpoint.display_name}: it already contains files")
        try:
            yield checkpoint
            checkpoint.sync()
        except BaseException:
            with contextlib.suppress(Unavailable, OSError):
                checkpoint.remove_tree()
            raise

    def remove_checkpoint(self, job: str) -> None:
        """Remove the copied checkpoint of a job that was not submitted."""
        self._checkpoint(job).remove_tree()


@dataclass(frozen=True, slots=True)
class _SelectedFiles:
    checkpoint: Files
    selection: FileSelection
    size: int
    """Bytes of all selected files."""


def _file_sizes(files: Files) -> dict[str, int]:
    return {file.path: file.size for file in files.walk()[0]}
