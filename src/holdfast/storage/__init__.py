"""Storage of a cluster: submitted code as blobs, and access to the checkpoints of jobs.

A storage is one location that all nodes share: a directory, a store that pyarrow reaches (S3, GCS, Azure), or HDFS.
- `Storage` stores files under their SHA-256.
- `Claims` records in a checkpoint which job owns it and which attempts have used it.
- `LocationClaims` does the same for a checkpoint location that a script names, and that an ended job leaves to the next one.
- `Checkpoints` reads a checkpoint, finds damage and repairs it.

A directory needs only the standard library. pyarrow is large and its calls can hang, so the caller never loads it: each call
that needs it runs in a short-lived subprocess (`subprocess_call`).

Every call blocks and may come from any thread. There are two kinds of errors:
- `Unavailable`: the operation may succeed later or on another node. This includes every error of the operating system or the
  store, also a denied permission, because an administrator can fix it without a new submission.
- `Refused`: the request or the stored content is wrong.
A call on a directory of an unreachable network mount blocks until the kernel returns.

This package makes no decisions about jobs. In a checkpoint it writes only the folder `_holdfast`, except that a caller can set
truncated offsets aside, rewrite offsets, or remove the checkpoint of a deleted job.
"""

from holdfast.checkpoint.metadata_files import KAFKA_CHOICE_FILE, KAFKA_LAST_KNOWN_FILE, KAFKA_PARK_FINDINGS_FILE
from holdfast.storage.blob_storage import BLOB_GRACE_S, Blob, Storage, open_storage
from holdfast.storage.checkpoint_access import Checkpoints, examine_file_sink, remove_deleted_checkpoint
from holdfast.storage.claim_book import CheckpointClaim
from holdfast.storage.claims import Claims
from holdfast.storage.location import check_location, checkpoint_location, spark_checkpoint_uri, spark_conf
from holdfast.storage.location_claims import LocationClaims, LocationOwner
from holdfast.storage.storage_errors import AlreadyClaimed, BlobDamaged, BlobMissing, ForeignCheckpoint, NotRemovable

__all__ = [
    "BLOB_GRACE_S",
    "KAFKA_CHOICE_FILE",
    "KAFKA_LAST_KNOWN_FILE",
    "KAFKA_PARK_FINDINGS_FILE",
    "AlreadyClaimed",
    "Blob",
    "BlobDamaged",
    "BlobMissing",
    "CheckpointClaim",
    "Checkpoints",
    "Claims",
    "ForeignCheckpoint",
    "LocationClaims",
    "LocationOwner",
    "NotRemovable",
    "Storage",
    "check_location",
    "checkpoint_location",
    "examine_file_sink",
    "open_storage",
    "remove_deleted_checkpoint",
    "spark_checkpoint_uri",
    "spark_conf",
]
