"""Removal of the checkpoint of a deleted job, in this process.

A checkpoint is removed only if all of it certainly belongs to the job:
- The newest claim, and every other claim at any depth, names the job and its cluster. A deeper claim belongs to a location in
  this checkpoint that a script names, possibly a script of another job.
- Every file is one that Spark or Holdfast writes to a checkpoint. A job can store other data here, such as tables.

Arguments and results are JSON values, because a call may come from another process (see `dispatch`).
"""

import re
from collections.abc import Iterable

from holdfast.checkpoint.metadata_files import FOLDER
from holdfast.model import codec
from holdfast.storage.claim_book import RECORD_BYTES_MAX, CheckpointClaim
from holdfast.storage.filesystem.files import Files
from holdfast.storage.storage_errors import NotRemovable

_CLAIM = re.compile(rf"(?:[^/]+/)*{FOLDER}/claim-[1-9][0-9]*")
_OWN_CLAIM = re.compile(rf"{FOLDER}/claim-[1-9][0-9]*")
_CHECKPOINT_FILE = re.compile(
    rf"(?:[^/]+/)*(?:{FOLDER}|offsets|commits|sources|state)/.+"
    r"|(?:[^/]+/)*(?:metadata|\.metadata\.crc|\.\.?metadata\.[^/]+)"
)
"""Files of a query's checkpoint at any depth: the folders that Spark fills, and the file with the query's id."""


class CheckpointRemover:
    """Operation on the files of one checkpoint."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def remove_owned(self, cluster: str, job: str) -> int:
        """Remove the checkpoint of a job that cannot start again. Return the number of its files, 0 if there are none.

        Raises NotRemovable, and Unavailable. A repeated call continues an interrupted removal: the claims are removed last.
        """
        paths = [file.path for file in self._files.walk()[0]]
        if paths:
            self._check_claims(paths, cluster, job)
            self._check_files(paths)
            self._remove(paths)
        return len(paths)

    def _check_claims(self, paths: Iterable[str], cluster: str, job: str) -> None:
        paths = list(paths)
        claims = [path for path in paths if _CLAIM.fullmatch(path)]
        if not any(map(_OWN_CLAIM.fullmatch, claims)):
            raise NotRemovable("no claim shows which job it belongs to")
        contents = self._files.read_files(claims, RECORD_BYTES_MAX)
        owners = {path: self._read_owner(path, contents.get(path)) for path in claims}
        for path, owner in owners.items():
            if owner is not None and owner != (cluster, job):
                raise NotRemovable(f"{path} belongs to the job {owner[1]} of the cluster '{owner[0]}'")
        if all(owner is None for path, owner in owners.items() if _OWN_CLAIM.fullmatch(path)):
            raise NotRemovable("no claim shows which job it belongs to")

    def _read_owner(self, path: str, data: bytes | None) -> tuple[str, str] | None:
        """Return the cluster and the job of a claim; None for an empty claim, which its attempt never completed."""
        if data is not None and not data.strip(b"\0"):
            return None
        try:
            claim = codec.decode(CheckpointClaim, data or b"", where=path)
        except (codec.MalformedRecord, codec.NewerSchema) as error:
            raise NotRemovable(f"the owner of a part of it is unknown: {error}") from error
        return claim.cluster, claim.job

    def _check_files(self, paths: Iterable[str]) -> None:
        other = next((path for path in paths if not _CHECKPOINT_FILE.fullmatch(path)), None)
        if other is not None:
            raise NotRemovable(f"{other} is not part of a Spark checkpoint")

    def _remove(self, paths: Iterable[str]) -> None:
        folders = sorted({path.partition("/")[0] for path in paths if "/" in path} - {FOLDER})
        for folder in folders:
            self._files.subtree(folder).remove_tree()
        for path in paths:
            if "/" not in path:
                self._files.remove_file(path)
        self._files.remove_tree()
