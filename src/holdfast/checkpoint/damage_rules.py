"""Rules that prove damage. Each names the method of Spark that fails, or that loses or repeats rows without an error.

A problem for which no such method exists is no damage: it is a remark, or a reason why the checkpoint cannot be judged.
"""

from dataclasses import dataclass

FAILS, LOSES, REPEATS = "Spark fails", "Spark loses rows without an error", "Spark repeats rows without an error"


@dataclass(frozen=True, slots=True)
class DamageRule:
    name: str
    effect: str
    """Effect on a query that starts from the checkpoint."""
    spark: str
    """Class and method of Spark that reads the damaged file."""


RULES: dict[str, DamageRule] = {}
"""All rules by name."""


def _rule(name: str, effect: str, spark: str) -> DamageRule:
    RULES[name] = DamageRule(name, effect, spark)
    return RULES[name]


# Logs of the query
OFFSETS_UNREADABLE = _rule("offsets-unreadable", FAILS, "OffsetSeqLog.deserialize")
OFFSETS_LACK_SOURCES = _rule("offsets-lack-sources", FAILS, "OffsetSeqBase.toStreamProgress")
OFFSET_UNREADABLE = _rule("offset-unreadable", FAILS, "SparkDataStream.deserializeOffset")
OFFSETS_MISSING = _rule("offsets-missing", FAILS, "MicroBatchExecution.initializeExecution")
OFFSETS_BEHIND_COMMITS = _rule("offsets-behind-commits", FAILS, "MicroBatchExecution.markMicroBatchEnd")
OFFSETS_OF_OTHER_BATCH = _rule("offsets-of-other-batch", REPEATS, "MicroBatchExecution.populateStartOffsets")
PREVIOUS_OFFSETS_MISSING = _rule("previous-offsets-missing", FAILS, "MicroBatchExecution.validateOffsetLogAndGetPrevOffset")
EPOCH_OFFSETS_MISSING = _rule("epoch-offsets-missing", FAILS, "ContinuousExecution.getStartOffsets")
COMMIT_UNREADABLE = _rule("commit-unreadable", FAILS, "CommitLog.readCommitMetadata")
QUERY_ID_UNREADABLE = _rule("query-id-unreadable", FAILS, "StreamMetadata.read")
QUERY_ID_MISSING = _rule("query-id-missing", FAILS, "StreamingQueryCheckpointMetadata.streamMetadata")
FOLDER_NOT_EMPTY = _rule("folder-not-empty", FAILS, "MicroBatchExecution.verifyNewCheckpointDirectory")
REPARTITION_UNFINISHED = _rule("repartition-unfinished", FAILS, "MicroBatchExecution.checkUnfinishedRepartitionBatch")
CHECKSUM_BLOCKS_FILE = _rule("checksum-blocks-file", FAILS, "FileContextBasedCheckpointFileManager.renameTempFile")

# Logs of file sources and file sinks
LOG_UNREADABLE = _rule("log-unreadable", FAILS, "CompactibleFileStreamLog.allFiles")
LOG_INCOMPLETE = _rule("log-incomplete", FAILS, "CompactibleFileStreamLog.allFiles")
SOURCE_LOG_BEHIND = _rule("source-log-behind", FAILS, "FileStreamSource.getBatch")
SOURCE_OFFSETS_DECREASE = _rule("source-offsets-decrease", FAILS, "FileStreamSource.getBatch")
SOURCE_FILES_FORGOTTEN = _rule("source-files-forgotten", REPEATS, "FileStreamSource.fetchMaxOffset")
SOURCE_FILES_OF_OTHER_BATCH = _rule("source-files-of-other-batch", LOSES, "FileStreamSourceLog.get")
SINK_LOG_WRONG = _rule("sink-log-wrong", FAILS, "CompactibleFileStreamLog.allFiles")

# State
STATE_VERSION_MISSING = _rule("state-version-missing", FAILS, "HDFSBackedStateStoreProvider.updateFromDeltaFile")
ROCKSDB_VERSION_MISSING = _rule("rocksdb-version-missing", FAILS, "RocksDBFileManager.loadCheckpointFromDfs")
STATE_IDS_MISSING = _rule("state-ids-missing", FAILS, "RocksDB.loadWithCheckpointId")
STATE_FILE_UNREADABLE = _rule("state-file-unreadable", FAILS, "HDFSBackedStateStoreProvider.updateFromDeltaFile")
CHANGELOG_UNREADABLE = _rule("changelog-unreadable", FAILS, "StateStoreChangelogReaderFactory.constructChangelogReader")
SNAPSHOT_UNREADABLE = _rule("snapshot-unreadable", FAILS, "HDFSBackedStateStoreProvider.readSnapshotFile")
ARCHIVE_UNREADABLE = _rule("archive-unreadable", FAILS, "RocksDBFileManager.unzipBatchZipFileFromDfs")
ARCHIVE_PART_WRONG = _rule("archive-part-wrong", FAILS, "RocksDBFileManager.loadImmutableFilesFromDfs")
STATE_CHECKSUM_WRONG = _rule("state-checksum-wrong", FAILS, "ChecksumFSDataInputStream.verifyChecksum")
OPERATOR_METADATA_WRONG = _rule("operator-metadata-wrong", FAILS, "OperatorStateMetadataV2Reader.read")
STATE_SCHEMA_MISSING = _rule("state-schema-missing", FAILS, "StateSchemaMetadata.createStateSchemaMetadata")
STATE_SCHEMA_UNREADABLE = _rule("state-schema-unreadable", FAILS, "StateSchemaCompatibilityChecker.readSchemaFile")
