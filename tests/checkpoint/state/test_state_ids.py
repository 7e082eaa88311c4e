"""State with unique ids: the newest commit selects the files, and files of uncommitted batches do not count."""

import json
import struct

import pytest

from holdfast.checkpoint import judge_findings
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.integrity import check_spark_checksum, check_state_file
from holdfast.checkpoint.query_logs import parse_logs
from holdfast.checkpoint.state.state_lineage import read_lineage
from holdfast.storage.state_reader import StateReader
from tests.harness.checkpoint_trees import LONG_KEY_SCHEMA, Files, build_file_tree, checkpoint_files, state_schema

IDS = {0: "a" * 8, 1: "b" * 8}


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def lz4_blocks(content: bytes) -> bytes:
    """Return content as LZ4 blocks, stored without compression."""
    block = struct.pack("<8sBiiI", b"LZ4Block", 0x16, len(content), len(content), 0) + content
    return block + struct.pack("<8sBiiI", b"LZ4Block", 0x16, 0, 0, 0)


def changelog(*lineage: tuple[int, str]) -> bytes:
    items = [{"version": version, "checkpointUniqueId": id} for version, id in lineage]
    return lz4_blocks(utf("v3") + utf(json.dumps(items)) + b"\xff\xff\xff\xff")


def id_of(partition: int, version: int) -> str:
    return f"{IDS[partition]}-{version}"


def commit(version: int) -> bytes:
    ids = {"0": [[id_of(partition, version)] for partition in IDS]}
    return f"v2\n{json.dumps({'nextBatchWatermarkMs': 0, 'stateUniqueIds': ids})}".encode()


def state_files() -> Files:
    """Return four batches: a snapshot of version 2, and changelogs of all versions."""
    files = checkpoint_files(3, committed=3)
    files |= {f"commits/{batch}": commit(batch + 1) for batch in range(4)}
    files["state/0/0/_metadata/schema"] = state_schema(LONG_KEY_SCHEMA)
    for part in IDS:
        for version in range(1, 5):
            first = 1 if version < 3 else 2
            lineage = [(each, id_of(part, each)) for each in range(first, version)]
            files[f"state/0/{part}/{version}_{id_of(part, version)}.changelog"] = changelog(*lineage)
        files[f"state/0/{part}/2_{id_of(part, 2)}.zip"] = b"x"
    return files


def judge(files: Files) -> tuple[str, list[str]]:
    tree = build_file_tree(files)
    reader = StateReader(lambda paths, _max: {path: files[path] for path in paths if path in files}, 1 << 20)
    found = examine(reader.add_state(tree, parse_logs(tree), tolerant=False, thorough=True)).findings
    texts = [str(finding) for finding in found if ".zip is not a complete zip" not in str(finding)]
    return judge_findings([each for each in found if str(each) in texts]), texts


def test_committed_files_are_found_by_their_ids() -> None:
    assert judge(state_files()) == ("whole", [])


@pytest.mark.parametrize("stray", [b"", b"torn", changelog()])
def test_file_of_an_uncommitted_batch_is_no_finding(stray: bytes) -> None:
    strays = {"state/0/1/4_stray.changelog": stray, "state/0/1/4_stray.zip": stray, "state/0/1/5_stray.changelog": stray}
    assert judge({**state_files(), **strays}) == ("whole", [])


def test_missing_committed_file_is_damage_although_a_stray_has_its_version() -> None:
    files = state_files()
    files["state/0/1/4_stray.changelog"] = files.pop(f"state/0/1/4_{id_of(1, 4)}.changelog")
    assert judge(files) == (
        "damaged",
        ["state/0/1 has no version 4 of the state with the id that the newest commit names, which batch 4 needs"],
    )


def test_missing_file_of_the_lineage_is_damage() -> None:
    files = state_files()
    files["state/0/0/3_stray.changelog"] = files.pop(f"state/0/0/3_{id_of(0, 3)}.changelog")
    assert judge(files)[0] == "damaged"
    assert judge({path: data for path, data in state_files().items() if "/1_" not in path}) == ("whole", [])


def test_missing_partition_is_damage() -> None:
    assert judge({path: data for path, data in state_files().items() if not path.startswith("state/0/1/")})[0] == "damaged"


def test_commit_without_ids_of_state_that_has_ids_is_damage() -> None:
    for data in (b"v2", b'v2\n{"nextBatchWatermarkMs":0}', b'v1\n{"nextBatchWatermarkMs":0}'):
        verdict, found = judge({**state_files(), "commits/3": data})
        assert verdict == "damaged"
        assert found[-1] == "commits/3 does not contain the ids of the state files"


def test_checksum_of_spark_is_compared() -> None:
    files = state_files()
    path = f"state/0/0/4_{id_of(0, 4)}.changelog"
    sum_of_file = {"algorithm": "CRC32C", "value": -1, "mainFileSize": len(files[path]), "timestampMs": 1}
    verdict, found = judge({**files, f"{path}.crc": json.dumps(sum_of_file).encode()})
    assert verdict == "damaged" and found == [f"{path} does not match the checksum that Spark wrote beside it"]
    short = json.dumps({**sum_of_file, "mainFileSize": 1}).encode()
    assert judge({**files, f"{path}.crc": short})[0] == "damaged"


def test_crc32c_of_known_data() -> None:
    def checksum(value: int, size: int) -> bytes:
        return json.dumps({"algorithm": "CRC32C", "value": value, "mainFileSize": size}).encode()

    value = 0xE3069283
    for expected in (value, value - (1 << 32)):
        assert check_spark_checksum(b"123456789", checksum(expected, 9)) is None
    assert check_spark_checksum(b"123456788", checksum(value, 9)) is not None
    assert check_spark_checksum(b"123456789", b"{") is not None


def test_lineage_of_compressed_changelogs_is_read() -> None:
    lineage = [(number, f"id-{number}") for number in range(1, 40)]
    assert read_lineage(changelog(*lineage)) == tuple(lineage)
    for data in (b"", b"LZ4Block", b"\x28\xb5\x2f\xfd", lz4_blocks(utf("v1")), lz4_blocks(b"\0\2v3\0\5[{]]]")):
        assert read_lineage(data) is None
    # Compressed by Spark's codecs: "v3", and a lineage with repetitions.
    text = utf("v3") + utf(json.dumps([{"version": 1, "checkpointUniqueId": "aaaaaaaaaaaaaaaaaaaaaaaa"}]))
    head = text.index(b"aaaa") + 1
    block = bytes([0xF0, head - 15]) + text[:head] if head >= 15 else b""
    token = bytes([0xF0 | 15, head - 15]) + text[:head] + b"\1\0" + bytes([23 - 4 - 15])
    tail = text[head + 23 :]
    data = token + bytes([len(tail) << 4]) + tail
    assert block and len(tail) < 15
    framed = struct.pack("<8sBiiI", b"LZ4Block", 0x26, len(data), len(text), 0) + data
    assert read_lineage(framed) == ((1, "a" * 24),)
    snappy = bytes([len(text) & 127 | 128, len(text) >> 7]) + bytes([60 << 2, head - 1]) + text[:head]
    snappy += bytes([(23 - 1) << 2 | 2, 1, 0]) + bytes([(len(tail) - 1) << 2]) + tail
    stream = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(snappy)) + snappy
    assert read_lineage(stream) == ((1, "a" * 24),)


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
def test_truncated_state_of_other_codecs_is_found(codec: str) -> None:
    snappy = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 4) + b"abcd"
    zstd = b"\x28\xb5\x2f\xfd" + bytes([0x20, 4]) + (4 << 3 | 1).to_bytes(3, "little") + b"abcd"
    data = snappy if codec == "snappy" else zstd
    assert check_state_file("1.delta", data, codec=codec) is None
    assert check_state_file("1.delta", data * 2, codec=codec) is None
    for size in range(1, len(data)):
        assert check_state_file("1.delta", data[:size], codec=codec) is not None or (codec == "snappy" and size == 16)
    assert check_state_file("1.delta", b"noise", codec=codec) is not None


def test_data_after_the_last_block_of_a_state_file_is_no_damage() -> None:
    content = lz4_blocks(b"rows")
    assert check_state_file("3.delta", content + b"\n{", codec="lz4") is None
    assert check_state_file("3.delta", content[:-1], codec="lz4") == "is truncated"
