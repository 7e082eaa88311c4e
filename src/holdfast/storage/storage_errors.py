"""What only storage can say, each as one of the errors that everybody knows."""

from holdfast.errors import Conflict, Refused


class BlobMissing(Refused):
    """The storage is there and the blob is not."""


class BlobDamaged(Refused):
    """What stands under the blob's name has another hash."""


class Claimed(Conflict):
    """This attempt's number, or a higher one, is taken."""


class ForeignCheckpoint(Refused):
    """The checkpoint belongs to another job or another cluster, or nobody can tell to whom."""


class FolderMissing(Exception):
    """Among the parts of this package: the folder is not there. Each caller knows what that means for it."""


class Unreadable(Exception):
    """Among the parts of this package: something stands under that name, and it is no file."""
