"""Hand-made checkpoints in Spark's layout: a query that reads files, and the log of its sink."""

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from holdfast.checkpoint.file_tree import File, FileTree, crc_path

Files = dict[str, bytes]


def offsets_file(batch: int, *, watermark_ms: int = 0, source: str | None = None) -> bytes:
    fields = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": {}}
    return f"v1\n{json.dumps(fields)}\n{source or json.dumps({'logOffset': batch})}".encode()


def commit_file(*, watermark_ms: int = 0) -> bytes:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark_ms}}}'.encode()


def source_log_file(batch: int) -> bytes:
    return f'v1\n{{"path":"file:///in/{batch}","timestamp":1,"batchId":{batch}}}'.encode()


def checkpoint_files(planned: int, *, committed: int | None = None) -> Files:
    """Return batches 0 to `planned`, committed up to `committed`. Default: all but the last, as after a kill."""
    newest_commit = planned - 1 if committed is None else committed
    files = {"metadata": b'{"id":"6f8b9a1e-0000-4000-8000-000000000000"}'}
    for batch in range(planned + 1):
        files[f"offsets/{batch}"] = offsets_file(batch)
        files[f"sources/0/{batch}"] = source_log_file(batch)
    for batch in range(newest_commit + 1):
        files[f"commits/{batch}"] = commit_file()
    return files


def with_state(files: Files, version: int, *, partitions: int = 2) -> Files:
    """Add uncompressed deltas of every version in each partition."""
    stores = [{"storeName": "default", "numPartitions": partitions}]
    metadata = {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": stores}
    state = {f"state/0/{part}/{number}.delta": b"x" for part in range(partitions) for number in range(1, version + 1)}
    description = f"v1\n{json.dumps(metadata)}".encode()
    schema = state_schema(LONG_KEY_SCHEMA)
    return {**files, **state, "state/0/_metadata/metadata": description, "state/0/0/_metadata/schema": schema}


COUNT_SCHEMA = '{"type":"struct","fields":[{"name":"count","type":"long","nullable":true,"metadata":{}}]}'
EMPTY_KEY_SCHEMA = '{"type":"struct","fields":[]}'
"""Schema of the key of a global aggregate."""
LIMIT_KEY_SCHEMA = '{"type":"struct","fields":[{"name":"key","type":"void","nullable":true,"metadata":{}}]}'
LONG_KEY_SCHEMA = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'


def state_schema(key: str) -> bytes:
    """Return the schema file of a state store as Spark 4.3 writes it, with a count as the value."""
    texts = [struct.pack(">IH", 1, len(text)) + text.encode() for text in (key, COUNT_SCHEMA)]
    return b"\0\2v2" + b"".join(texts)


def operator_state(number: int, name: str, key: str, *, shuffle_partitions: int, partitions: int, version: int) -> Files:
    """Return the state of one operator in the layout of Spark 4.3. Version 0 has no deltas: no task has run yet."""
    info = {"operatorId": number, "operatorName": name}
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": shuffle_partitions}
    metadata = json.dumps({"operatorInfo": info, "stateStoreInfo": [store]}, separators=(",", ":"))
    deltas = {f"state/{number}/{part}/{each}.delta": b"x" for part in range(partitions) for each in range(1, version + 1)}
    return {
        f"state/{number}/_metadata/metadata": f"v1\n{metadata}".encode(),
        f"state/{number}/0/_metadata/schema": state_schema(key),
        **deltas,
    }


def schema_file_of_format_3(encoder: str, *, user_key: str = "{    }") -> bytes:
    """Return the schema file of one column family. `encoder` says how its keys are encoded."""

    def chunks(text: str) -> bytes:
        return struct.pack(">IH", 1, len(text)) + text.encode()

    texts = [chunks(LONG_KEY_SCHEMA), b"\0\0", chunks(COUNT_SCHEMA), chunks(encoder), chunks(user_key)]
    return b"\0\2v3" + struct.pack(">i", 1) + b"\0\5count\0\0" + b"".join(texts)


def transform_state(schema_path: str, operator: str, *, version: int) -> Files:
    """Return the state of transformWithState, or of another operator whose metadata names its schema file, in Spark 4.3."""
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2, "stateSchemaFilePaths": [schema_path]}
    metadata = {"operatorInfo": {"operatorId": 0, "operatorName": operator}, "stateStoreInfo": [store]}
    return {
        "state/0/_metadata/v2/0": f"v2\n{json.dumps(metadata)}".encode(),
        f"state/0/_stateSchema/default/{schema_path.rpartition('/')[2]}": schema_file_of_format_3(
            '{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}'
        ),
        **{f"state/0/{part}/{each}.changelog": b"x" for part in range(2) for each in range(1, version + 1)},
    }


def sink_log_files(newest: int) -> Files:
    return {str(batch): b'v1\n{"path":"file:///out/part","size":1,"action":"add"}' for batch in range(newest + 1)}


def crc_file(data: bytes) -> bytes:
    sums = (zlib.crc32(data[start : start + 512]) for start in range(0, len(data), 512))
    return b"crc\0" + struct.pack(">I", 512) + b"".join(struct.pack(">I", each) for each in sums)


def build_file_tree(files: Mapping[str, bytes]) -> FileTree:
    return FileTree({path: File(path, len(data), 1000.0) for path, data in files.items()}, dict(files))


def write_files(files: Mapping[str, bytes], root: Path, *, with_checksums: bool = False) -> None:
    for path, data in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if with_checksums:
            (root / crc_path(path)).write_bytes(crc_file(data))
