"""Checkpoints as Spark lays them out, made by hand: a query that reads files, and the log of its sink."""

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from holdfast.checkpoint.file_tree import File, Tree, crc_of

Files = dict[str, bytes]


def offsets(batch: int, *, watermark_ms: int = 0, source: str | None = None) -> bytes:
    fields = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": {}}
    return f"v1\n{json.dumps(fields)}\n{source or json.dumps({'logOffset': batch})}".encode()


def commit(*, watermark_ms: int = 0) -> bytes:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark_ms}}}'.encode()


def read_files(batch: int) -> bytes:
    return f'v1\n{{"path":"file:///in/{batch}","timestamp":1,"batchId":{batch}}}'.encode()


def checkpoint(planned: int, *, committed: int | None = None) -> Files:
    """Batches 0 to `planned`, of which those up to `committed` are done: all but the last, as after a kill, unless said."""
    done = planned - 1 if committed is None else committed
    files = {"metadata": b'{"id":"6f8b9a1e-0000-4000-8000-000000000000"}'}
    for batch in range(planned + 1):
        files[f"offsets/{batch}"] = offsets(batch)
        files[f"sources/0/{batch}"] = read_files(batch)
    for batch in range(done + 1):
        files[f"commits/{batch}"] = commit()
    return files


def with_state(files: Files, version: int, *, partitions: int = 2) -> Files:
    """The steps of every version, uncompressed, in each partition."""
    stores = [{"storeName": "default", "numPartitions": partitions}]
    told = {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": stores}
    state = {f"state/0/{part}/{number}.delta": b"x" for part in range(partitions) for number in range(1, version + 1)}
    return {**files, **state, "state/0/_metadata/metadata": f"v1\n{json.dumps(told)}".encode()}


COUNT = '{"type":"struct","fields":[{"name":"count","type":"long","nullable":true,"metadata":{}}]}'
NO_KEY = '{"type":"struct","fields":[]}'
"""Key of a global aggregate."""
LIMIT_KEY = '{"type":"struct","fields":[{"name":"key","type":"void","nullable":true,"metadata":{}}]}'
LONG_KEY = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'


def state_schema(key: str) -> bytes:
    """The schema of a state store as Spark 4.3 writes it, with a count as the value."""
    texts = [struct.pack(">IH", 1, len(text)) + text.encode() for text in (key, COUNT)]
    return b"\0\2v2" + b"".join(texts)


def operator_state(number: int, name: str, key: str, *, shuffle_partitions: int, partitions: int, version: int) -> Files:
    """The state of one operator as Spark 4.3 lays it out. Version 0 is what the first batch leaves before any task runs."""
    info = {"operatorId": number, "operatorName": name}
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": shuffle_partitions}
    metadata = json.dumps({"operatorInfo": info, "stateStoreInfo": [store]}, separators=(",", ":"))
    deltas = {f"state/{number}/{part}/{each}.delta": b"x" for part in range(partitions) for each in range(1, version + 1)}
    return {
        f"state/{number}/_metadata/metadata": f"v1\n{metadata}".encode(),
        f"state/{number}/0/_metadata/schema": state_schema(key),
        **deltas,
    }


def sink(newest: int) -> Files:
    return {str(batch): b'v1\n{"path":"file:///out/part","size":1,"action":"add"}' for batch in range(newest + 1)}


def checksums(data: bytes) -> bytes:
    sums = (zlib.crc32(data[start : start + 512]) for start in range(0, len(data), 512))
    return b"crc\0" + struct.pack(">I", 512) + b"".join(struct.pack(">I", each) for each in sums)


def tree(files: Mapping[str, bytes]) -> Tree:
    return Tree({path: File(path, len(data), 1000.0) for path, data in files.items()}, dict(files))


def lay_out(files: Mapping[str, bytes], root: Path, *, with_checksums: bool = False) -> None:
    for path, data in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if with_checksums:
            (root / crc_of(path)).write_bytes(checksums(data))
