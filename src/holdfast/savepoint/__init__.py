"""Savepoints: consistent copies of a job's checkpoint, with checksums, that other jobs can start from.

Whoever asks for one makes it: the command line copies from the storage to the storage, so that nothing about it has to be
agreed with a node. A running job is not paused: Spark writes every file of a checkpoint once and never changes it, so a copy of
all that belongs to the batches up to the last committed one is consistent (`cut.py`). The manifest is written last, after the
data is on the disk: what has none is no savepoint.

Everything here may load pyarrow and blocks: only for processes that end soon.
"""

from holdfast.savepoint.manifest import Manifest
from holdfast.savepoint.savepoint_store import Savepoints, Source

__all__ = ["Manifest", "Savepoints", "Source"]
