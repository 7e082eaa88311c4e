"""State stores of the matrix, as Spark settings."""

from collections.abc import Mapping

_STATE = "spark.sql.streaming.stateStore"
_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
_HDFS = {f"{_STATE}.providerClass": f"{_PACKAGE}.HDFSBackedStateStoreProvider"}
_ROCKSDB = {f"{_STATE}.providerClass": f"{_PACKAGE}.RocksDBStateStoreProvider"}
_CHANGELOG = {f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
_FULL = {f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "false"}
_V2 = {f"{_STATE}.checkpointFormatVersion": "2"}
_NO_CHECKSUMS = {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"}
_EAGER = {f"{_STATE}.minDeltasForSnapshot": "2"}
"""Lets background maintenance write snapshots within a few batches."""


def _codec(name: str) -> Mapping[str, str]:
    return {f"{_STATE}.compression.codec": name}


STORES: Mapping[str, Mapping[str, str]] = {
    "hdfs": _HDFS,
    "hdfs-snapshots": {**_HDFS, **_EAGER},
    "hdfs-zstd": {**_HDFS, **_codec("zstd")},
    "hdfs-snappy": {**_HDFS, **_codec("snappy")},
    "hdfs-no-checksums": {**_HDFS, **_NO_CHECKSUMS},
    "rocksdb": {**_ROCKSDB, **_FULL},
    "rocksdb-changelog": {**_ROCKSDB, **_CHANGELOG},
    "rocksdb-changelog-snapshots": {**_ROCKSDB, **_CHANGELOG, **_EAGER},
    "rocksdb-changelog-zstd": {**_ROCKSDB, **_CHANGELOG, **_codec("zstd")},
    "rocksdb-v2": {**_ROCKSDB, **_FULL, **_V2},
    "rocksdb-changelog-v2": {**_ROCKSDB, **_CHANGELOG, **_V2},
    "rocksdb-changelog-no-checksums": {**_ROCKSDB, **_CHANGELOG, **_NO_CHECKSUMS},
    "rocksdb-avro": {**_ROCKSDB, **_CHANGELOG, f"{_STATE}.encodingFormat": "avro"},
    "rocksdb-row-checksums": {**_ROCKSDB, **_CHANGELOG, f"{_STATE}.rowChecksum.enabled": "true"},
}


def writes_snapshots_soon(store: str) -> bool:
    """Return True if background maintenance writes snapshots of a store within a few batches."""
    return store.endswith("-snapshots")
