"""Savepoints in a directory and in a real S3 server: complete or absent, and restored unchanged."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.checkpoint.file_tree import File, crc_path
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.savepoint import Manifest, SavepointSource, SavepointStore
from holdfast.savepoint.manifest import SavepointDamaged
from holdfast.storage.filesystem.files import Files, open_files
from holdfast.storage.location import parse_location
from tests.harness.checkpoint_trees import crc_file
from tests.storage.conftest import bucket, directory, location, s3_server

__all__ = ["bucket", "directory", "location", "s3_server"]

STOPPED = SavepointSource(job="j1", name="words (j1)", version=2, ancestors=("j0",), running=False)
RUNNING = SavepointSource(job="j1", name="words (j1)", version=2, ancestors=(), running=True)


def checkpoint_content(batches: int) -> dict[str, bytes]:
    files = {"query-1/metadata": b'{"id":"x"}', "_holdfast/claim-1": b"ours"}
    for batch in range(batches):
        files[f"query-1/offsets/{batch}"] = f"v1\n{{}}\n{batch}".encode()
        files[f"query-1/commits/{batch}"] = b"v1\n{}"
        files[f"query-1/state/0/0/{batch + 1}.delta"] = bytes([batch]) * 1000
    return files


def write_files(target: Files, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        with target.open_writer(path) as write:
            write(memoryview(data))


def read_files(source: Files) -> dict[str, bytes]:
    return {file.path: source.read(file.path) for file in source.walk()[0]}


@pytest.fixture
def savepoints(location: str) -> SavepointStore:
    return SavepointStore(location)


@pytest.fixture
def checkpoint(location: str) -> Callable[[str], Files]:
    return lambda job: open_files(parse_location(location).join("checkpoints", job))


@pytest.fixture
def savepoint(savepoints: SavepointStore, checkpoint: Callable[[str], Files]) -> Manifest:
    write_files(checkpoint("j1"), checkpoint_content(3))
    return savepoints.create(STOPPED, by="ada@laptop")


def test_savepoint_is_restored_unchanged(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], savepoint: Manifest
) -> None:
    write_files(checkpoint("j1"), {"query-1/offsets/3": b"later"})
    assert (savepoint.job, savepoint.version, savepoint.ancestors, savepoint.batches) == ("j1", 2, ("j0",), {"query-1/": 2})
    savepoints.restore(savepoints.find(savepoint.id), "j2")
    kept = {path: data for path, data in checkpoint_content(3).items() if not path.startswith("_holdfast/")}
    assert read_files(checkpoint("j2")) == kept
    assert savepoints.list_all() == [savepoint]


def test_savepoint_of_a_running_job_contains_only_committed_batches(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files]
) -> None:
    write_files(checkpoint("j1"), checkpoint_content(3) | {"query-1/offsets/3": b"begun", "query-1/state/0/0/4.delta": b"half"})
    savepoint = savepoints.create(RUNNING, by="")
    paths = {file.path for file in savepoint.files}
    assert "query-1/offsets/2" in paths
    assert not {"query-1/offsets/3", "query-1/state/0/0/4.delta"} & paths


def test_copied_bytes_are_reported(savepoints: SavepointStore, checkpoint: Callable[[str], Files]) -> None:
    write_files(checkpoint("j1"), checkpoint_content(3))
    reported: list[int] = []

    def start_progress(total: int) -> Callable[[int], None]:
        reported.append(-total)
        return reported.append

    savepoint = savepoints.create(STOPPED, by="", start_progress=start_progress)
    assert (reported[0], sum(reported[1:])) == (-savepoint.size, savepoint.size)


def test_interrupted_copy_leaves_no_savepoint_and_no_files(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], location: str
) -> None:
    write_files(checkpoint("j1"), checkpoint_content(3))

    def start_progress(_total: int) -> Callable[[int], None]:
        def report_bytes(_more: int) -> None:
            raise Unavailable("power failure")

        return report_bytes

    with pytest.raises(Unavailable, match="power failure"):
        savepoints.create(STOPPED, by="", start_progress=start_progress)
    assert savepoints.list_all() == []
    assert open_files(parse_location(location).join("savepoints")).walk() == ([], False)


def test_savepoint_without_a_manifest_is_not_listed_or_found(
    savepoints: SavepointStore, savepoint: Manifest, location: str
) -> None:
    open_files(parse_location(location).join("savepoints", savepoint.id)).remove_file("manifest.json")
    assert savepoints.list_all() == []
    with pytest.raises(Refused, match="there is no savepoint"):
        savepoints.find(savepoint.id)


@pytest.mark.parametrize("damage", ["changed", "shorter", "missing"])
def test_damaged_savepoint_is_not_restored(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], savepoint: Manifest, location: str, damage: str
) -> None:
    data = open_files(parse_location(location).join("savepoints", savepoint.id, "data"))
    path = "query-1/state/0/0/2.delta"
    if damage == "missing":
        data.remove_file(path)
    else:
        write_files(data, {path: b"\x07" * (1000 if damage == "changed" else 10)})
    with pytest.raises(SavepointDamaged, match=r"state/0/0/2\.delta is (damaged|missing)"):
        savepoints.restore(savepoint, "j2")
    assert checkpoint("j2").walk() == ([], False)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"\xff", b'{"format": 2}', b'{"format":1,"files":[{"path":"../x","size":1,"sha256":"0"}]}']
)
def test_malformed_manifest_is_reported_as_damage(
    savepoints: SavepointStore, savepoint: Manifest, location: str, text: bytes
) -> None:
    write_files(open_files(parse_location(location).join("savepoints", savepoint.id)), {"manifest.json": text})
    with pytest.raises(SavepointDamaged):
        savepoints.find(savepoint.id)


def test_manifest_with_a_path_outside_of_the_savepoint_is_reported_as_damage(
    savepoints: SavepointStore, savepoint: Manifest, location: str
) -> None:
    fields = json.loads(savepoint.encode())
    fields["files"][0]["path"] = "../../outside"
    write_files(
        open_files(parse_location(location).join("savepoints", savepoint.id)), {"manifest.json": json.dumps(fields).encode()}
    )
    with pytest.raises(SavepointDamaged):
        savepoints.find(savepoint.id)


def test_job_without_a_committed_batch_is_refused(savepoints: SavepointStore, checkpoint: Callable[[str], Files]) -> None:
    write_files(checkpoint("j1"), {"query-1/metadata": b"{}", "query-1/offsets/0": b"v1"})
    with pytest.raises(Refused, match="has not committed a batch"):
        savepoints.create(STOPPED, by="")


def test_copied_checkpoint_includes_the_batch_in_progress(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files]
) -> None:
    write_files(checkpoint("j1"), checkpoint_content(3) | {"query-1/offsets/3": b"begun"})
    assert savepoints.copy_checkpoint(STOPPED, "j2") == {"query-1/": 2}
    assert read_files(checkpoint("j2"))["query-1/offsets/3"] == b"begun"


# Paths that the metadata of a checkpoint names

METADATA, SCHEMA = "query-1/state/0/_metadata/v2/0", "query-1/state/0/_stateSchema/default/0_5a92"


def write_checkpoint_with_schema(target: Files, schema_path: str) -> None:
    """Write a checkpoint like that of transformWithState, with checksum files."""
    metadata = json.dumps({"stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": [schema_path]}]})
    files = {METADATA: f"v2\n{metadata}".encode(), SCHEMA: b"schema"}
    files |= {crc_path(path): crc_file(data) for path, data in files.items()}
    write_files(target, checkpoint_content(3) | files)


def schema_path_in(checkpoint: Files) -> str:
    (store,) = json.loads(checkpoint.read(METADATA).partition(b"\n")[2])["stateStoreInfo"]
    (path,) = store["stateSchemaFilePaths"]
    return str(path)


def spark_path(location: str, job: str) -> str:
    """Return a schema file of a job's checkpoint as Spark names it."""
    root = parse_location(location).join("checkpoints", job).spark_uri
    return f"{'file:' if root.startswith('/') else ''}{root}/{SCHEMA}"


def test_restored_metadata_names_schema_files_in_the_new_checkpoint(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], location: str
) -> None:
    write_checkpoint_with_schema(checkpoint("j1"), spark_path(location, "j1"))
    savepoint = savepoints.create(STOPPED, by="")
    data = open_files(parse_location(location).join("savepoints", savepoint.id, "data"))
    assert schema_path_in(data) == spark_path(location, "j1")
    assert savepoint.location == parse_location(location).join("checkpoints", "j1").spark_uri
    checkpoint("j1").remove_tree()
    savepoints.restore(savepoints.find(savepoint.id), "j2")
    assert schema_path_in(checkpoint("j2")) == spark_path(location, "j2")
    restored = read_files(checkpoint("j2"))
    assert crc_path(METADATA) not in restored and crc_path(SCHEMA) in restored
    assert set(restored) == {file.path for file in savepoint.files} - {crc_path(METADATA)}


def test_copied_metadata_names_schema_files_in_the_new_checkpoint(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], location: str
) -> None:
    write_checkpoint_with_schema(checkpoint("j1"), spark_path(location, "j1"))
    savepoints.copy_checkpoint(STOPPED, "j2")
    assert schema_path_in(checkpoint("j1")) == spark_path(location, "j1")
    assert schema_path_in(checkpoint("j2")) == spark_path(location, "j2")
    assert crc_path(METADATA) not in read_files(checkpoint("j2"))


def test_restored_metadata_keeps_a_path_outside_of_the_old_checkpoint(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files]
) -> None:
    write_checkpoint_with_schema(checkpoint("j1"), "file:/elsewhere/schema")
    savepoints.restore(savepoints.create(STOPPED, by=""), "j2")
    assert schema_path_in(checkpoint("j2")) == "file:/elsewhere/schema"
    assert crc_path(METADATA) in read_files(checkpoint("j2"))


def test_savepoint_of_an_earlier_release_is_restored_with_paths_in_the_new_checkpoint(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], location: str
) -> None:
    """Earlier releases recorded no location, and left the paths of the checkpoint before the last one in the metadata."""
    write_checkpoint_with_schema(checkpoint("j1"), spark_path("/another/storage", "j0"))
    savepoint = savepoints.create(STOPPED, by="")
    fields = json.loads(savepoint.encode())
    del fields["location"]
    write_files(
        open_files(parse_location(location).join("savepoints", savepoint.id)), {"manifest.json": json.dumps(fields).encode()}
    )
    savepoints.restore(savepoints.find(savepoint.id), "j2")
    assert schema_path_in(checkpoint("j2")) == spark_path(location, "j2")


def test_damaged_metadata_of_a_savepoint_is_not_restored(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], location: str
) -> None:
    write_checkpoint_with_schema(checkpoint("j1"), spark_path(location, "j1"))
    savepoint = savepoints.create(STOPPED, by="")
    data = open_files(parse_location(location).join("savepoints", savepoint.id, "data"))
    write_files(data, {METADATA: data.read(METADATA).replace(b"/j1/", b"/j7/")})
    with pytest.raises(SavepointDamaged, match=r"_metadata/v2/0 is damaged"):
        savepoints.restore(savepoint, "j2")
    assert checkpoint("j2").walk() == ([], False)


def test_restore_refuses_a_checkpoint_that_contains_files(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], savepoint: Manifest
) -> None:
    write_files(checkpoint("j2"), {"query-1/offsets/0": b"other content"})
    with pytest.raises(Refused, match="it already contains files"):
        savepoints.restore(savepoint, "j2")
    assert read_files(checkpoint("j2")) == {"query-1/offsets/0": b"other content"}


def test_removed_savepoint_leaves_no_files(savepoints: SavepointStore, savepoint: Manifest, location: str) -> None:
    savepoints.remove(savepoint.id)
    assert open_files(parse_location(location).join("savepoints")).walk() == ([], False)
    with pytest.raises(HoldfastError, match="there is no savepoint"):
        savepoints.remove(savepoint.id)


class VanishingFiles:
    """Files of a checkpoint that lists one file more than it contains, as if Spark removed it after the listing."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self.listings = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def walk(self, files_max: int | None = None, *, below: str = "") -> tuple[list[File], bool]:
        self.listings += 1
        files, truncated = self._files.walk(files_max, below=below)
        return [*files, File(self._path, 10, 0.0)], truncated


@pytest.fixture
def checkpoint_without(
    savepoints: SavepointStore, checkpoint: Callable[[str], Files], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], VanishingFiles]:
    """Function that creates the checkpoint of job j1 in which the given file vanishes."""

    def make(path: str) -> VanishingFiles:
        write_files(checkpoint("j1"), checkpoint_content(100))
        files = VanishingFiles(checkpoint("j1"), path)
        monkeypatch.setattr(savepoints, "_checkpoint", lambda _job: files)
        return files

    return make


def test_old_file_that_vanishes_during_the_copy_is_left_out(
    savepoints: SavepointStore, checkpoint_without: Callable[[str], VanishingFiles]
) -> None:
    checkpoint_without("query-1/state/0/0/7.zip")
    savepoint = savepoints.create(RUNNING, by="")
    assert savepoint.batches == {"query-1/": 99}
    assert "query-1/state/0/0/7.zip" not in {file.path for file in savepoint.files}


@pytest.mark.slow
def test_recent_file_that_vanishes_in_every_copy_makes_the_savepoint_fail(
    savepoints: SavepointStore, checkpoint_without: Callable[[str], VanishingFiles]
) -> None:
    files = checkpoint_without("query-1/state/0/0/98.zip")
    with pytest.raises(Unavailable, match="faster than its checkpoint can be copied"):
        savepoints.create(RUNNING, by="")
    assert files.listings == 6
    assert savepoints.list_all() == []


def test_unwritable_directory_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "j1").mkdir(parents=True)
    write_files(open_files(parse_location(str(tmp_path / "checkpoints" / "j1"))), checkpoint_content(1))
    (tmp_path / "savepoints").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot"):
        SavepointStore(str(tmp_path)).create(STOPPED, by="")
