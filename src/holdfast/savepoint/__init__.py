"""Savepoints: consistent copies of a job's checkpoint, with checksums, that other jobs can start from.

The client process copies the files itself, from the storage to the storage; no node takes part. A running job is not paused:
Spark writes each file of a checkpoint once and never changes it. A copy of all files up to the last committed batch is
therefore consistent (`selection`). The manifest is written last, after the data is on disk. A folder without a manifest is
not a savepoint.

Every call blocks and may load pyarrow, so this package is only for short-lived processes.
"""

from holdfast.savepoint.manifest import Manifest
from holdfast.savepoint.savepoint_store import SavepointSource, SavepointStore

__all__ = ["Manifest", "SavepointSource", "SavepointStore"]
