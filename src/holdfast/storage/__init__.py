"""The cluster's storage: code as blobs named by their SHA-256, and the checkpoints of jobs: claims, and what is in them.

One location, the same for every node: a directory, for which the standard library is enough, or anything that pyarrow reaches.
pyarrow is large and its calls can hang, so it is never loaded here: each call that needs it runs in a short-lived process of
its own (`apart.py`). Nothing here decides about jobs. Of a checkpoint only the folder `_holdfast` is written to; the rest is
read, and what is torn is moved there if a caller says so.

Every call blocks, may come from any thread, and says what a caller does next: `Unavailable` for whatever may pass, which is
everything that an operating system or a store says about itself, a denied permission too, because it is mended without
submitting the job again, and another node may not have it; `Refused` for what is wrong with the request or with the content.
A directory on a dead network mount blocks for as long as its kernel does.
"""

from holdfast.storage.blob_storage import GRACE_S, Blob, Storage, open_storage
from holdfast.storage.checkpoint_access import Checkpoints, sink_at
from holdfast.storage.claim_book import KAFKA, KAFKA_CHOICE, KAFKA_LOST, Claim
from holdfast.storage.claims import Claims
from holdfast.storage.location import checkpoint_of, in_storage, spark_conf, validate
from holdfast.storage.storage_errors import BlobDamaged, BlobMissing, Claimed, ForeignCheckpoint

__all__ = [
    "GRACE_S",
    "KAFKA",
    "KAFKA_CHOICE",
    "KAFKA_LOST",
    "Blob",
    "BlobDamaged",
    "BlobMissing",
    "Checkpoints",
    "Claim",
    "Claimed",
    "Claims",
    "ForeignCheckpoint",
    "Storage",
    "checkpoint_of",
    "in_storage",
    "open_storage",
    "sink_at",
    "spark_conf",
    "validate",
]
