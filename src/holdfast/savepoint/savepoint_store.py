"""The savepoints of a cluster: made, listed, removed, and copied into the checkpoint of a new job."""

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.errors import Refused, Unavailable
from holdfast.savepoint.checked_copy import Advance, copy, copy_checked
from holdfast.savepoint.file_tree import Files, files_at
from holdfast.savepoint.manifest import File, Manifest
from holdfast.savepoint.selection import Cut, committed, cut
from holdfast.storage.location import CHECKPOINTS, parse

FOLDER = "savepoints"
DATA = "data"
MANIFEST = "manifest.json"
TRIES = 3
SLACK = 50
"""Spark keeps a hundred batches. What is older than half of them may vanish while it is copied."""
_ID = re.compile("s[0-9a-f]{12}")

Begin = Callable[[int], Advance]
"""Told how many bytes there are to copy, before the first is."""


def _silent(_bytes: int) -> Advance:
    return lambda _more: None


def is_savepoint(text: str) -> bool:
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Source:
    """The job that a savepoint is made of."""

    job: str
    name: str
    version: int
    ancestors: tuple[str, ...]
    running: bool


class Savepoints:
    def __init__(self, storage: str) -> None:
        self._location = parse(storage)

    def _checkpoint(self, job: str) -> Files:
        return files_at(self._location.joined(CHECKPOINTS, job))

    def _at(self, id: str) -> Files:
        return files_at(self._location.joined(FOLDER, id))

    def make(self, source: Source, *, by: str, begin: Begin = _silent) -> Manifest:
        """Raises Refused if there is nothing to copy, and Unavailable."""
        began = time.monotonic()
        id = f"s{secrets.token_hex(6)}"
        place = self._at(id)
        try:
            for _ in range(TRIES):
                done = self._copy_of(source, place.below(DATA), begin)
                if done is not None:
                    break
            else:
                raise Unavailable(
                    f"{source.name} goes on faster than its checkpoint can be copied: stop it first (stop --savepoint)"
                )
            cut, files = done
            place.settle()
            manifest = Manifest(
                id=id,
                job=source.job,
                name=source.name,
                ancestors=source.ancestors,
                version=source.version,
                made_wall_s=time.time(),
                by=by,
                took_s=round(time.monotonic() - began, 3),
                running=source.running,
                batches=cut.batches,
                files=files,
            )
            with place.writing(MANIFEST) as write:
                write(memoryview(manifest.encode()))
            place.settle()
        except BaseException:
            with contextlib.suppress(Unavailable, OSError):
                place.remove()
            raise
        return manifest

    def _copy_of(self, source: Source, target: Files, begin: Begin) -> tuple[Cut, tuple[File, ...]] | None:
        """None if something that is needed has vanished meanwhile."""
        checkpoint = self._checkpoint(source.job)
        batches = committed(checkpoint.walk())
        if not batches:
            raise Refused(f"{source.name} has committed no batch yet in {checkpoint.shown}, so there is nothing to keep")
        sizes = checkpoint.walk()  # again: the files of those batches are all there by now
        whole = cut(sizes, batches, running=source.running)
        advance = begin(sum(sizes[path] for path in whole.files))
        files: list[File] = []
        with contextlib.closing(copy(checkpoint, target, whole.files, advance)) as copies:
            for copied in copies:
                if isinstance(copied, File):
                    files.append(copied)
                elif not source.running or whole.needs(copied.path, SLACK):
                    break
            else:
                return whole, tuple(files)
        target.remove()
        return None

    def all(self) -> list[Manifest]:
        """The whole ones, the oldest first."""
        found = (self._read(id) for id in files_at(self._location.joined(FOLDER)).folders() if is_savepoint(id))
        return sorted((manifest for manifest in found if manifest is not None), key=lambda manifest: manifest.made_wall_s)

    def find(self, id: str) -> Manifest:
        manifest = self._read(id) if is_savepoint(id) else None
        if manifest is None:
            raise Refused(f"there is no savepoint '{id}'; 'holdfast savepoint ls' lists them")
        return manifest

    def _read(self, id: str) -> Manifest | None:
        """None if it was never finished. Raises Damaged."""
        place = self._at(id)
        try:
            return Manifest.decode(place.read(MANIFEST), f"{place.shown}/{MANIFEST}")
        except FileNotFoundError:
            return None

    def remove(self, id: str) -> None:
        """The manifest first: what is left after that is no savepoint."""
        self.find(id)
        place = self._at(id)
        with contextlib.suppress(FileNotFoundError):
            place.remove_file(MANIFEST)
        place.remove()

    # Into the checkpoint of a new job

    def restore(self, manifest: Manifest, job: str, begin: Begin = _silent) -> None:
        """All of it, and just as it was when it was made. Raises Damaged."""
        with self._fresh(job) as checkpoint:
            copy_checked(self._at(manifest.id).below(DATA), checkpoint, manifest.files, begin(manifest.size))

    def take_over(self, source: Source, job: str, begin: Begin = _silent) -> dict[str, int]:
        """The checkpoint of a job that does not run. Returns the last batch of each query."""
        with self._fresh(job) as checkpoint:
            done = self._copy_of(source, checkpoint, begin)
            if done is None:
                raise Unavailable(f"the checkpoint of {source.name} was changed while it was copied")
            return done[0].batches

    @contextlib.contextmanager
    def _fresh(self, job: str) -> Iterator[Files]:
        checkpoint = self._checkpoint(job)
        if checkpoint.walk():
            raise Refused(f"there is something in {checkpoint.shown} already")
        try:
            yield checkpoint
            checkpoint.settle()
        except BaseException:
            with contextlib.suppress(Unavailable, OSError):
                checkpoint.remove()
            raise

    def abandon(self, job: str) -> None:
        """The job that a checkpoint was copied for was not submitted after all."""
        self._checkpoint(job).remove()
