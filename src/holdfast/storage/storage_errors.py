"""Errors of the storage. The public ones are subclasses of the shared errors in `holdfast.errors`."""

from holdfast.errors import Conflict, Refused


class BlobMissing(Refused):
    """Blob that does not exist in a storage that can be read."""


class BlobDamaged(Refused):
    """Blob whose content does not have the SHA-256 of its name."""


class AlreadyClaimed(Conflict):
    """Attempt whose number, or a higher one, is already claimed."""


class ForeignCheckpoint(Refused):
    """Checkpoint that belongs to another job or cluster, or whose owner is unknown."""


class NotRemovable(Refused):
    """Checkpoint that is kept, because not all of it certainly belongs to the deleted job."""


class FolderMissing(Exception):
    """Missing folder. Internal to this package; each caller handles it."""


class NotAFile(Exception):
    """Link, directory or pipe in place of a plain file. Internal to this package."""
