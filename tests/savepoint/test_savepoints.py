"""Savepoints in a directory and in a real S3 server: whole or not there at all, and just as they were."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.savepoint import Manifest, Savepoints, Source
from holdfast.savepoint.file_tree import Files, files_at
from holdfast.savepoint.manifest import Damaged
from holdfast.storage.location import parse
from tests.storage.conftest import bucket, directory, location, s3_server

__all__ = ["bucket", "directory", "location", "s3_server"]

STOPPED = Source(job="j1", name="words (j1)", version=2, ancestors=("j0",), running=False)
RUNNING = Source(job="j1", name="words (j1)", version=2, ancestors=(), running=True)


def tree(batches: int) -> dict[str, bytes]:
    files = {"query-1/metadata": b'{"id":"x"}', "_holdfast/claim-1": b"ours"}
    for batch in range(batches):
        files[f"query-1/offsets/{batch}"] = f"v1\n{{}}\n{batch}".encode()
        files[f"query-1/commits/{batch}"] = b"v1\n{}"
        files[f"query-1/state/0/0/{batch + 1}.delta"] = bytes([batch]) * 1000
    return files


def write(place: Files, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        with place.writing(path) as write_some:
            write_some(memoryview(data))


def contents(place: Files) -> dict[str, bytes]:
    return {path: place.read(path) for path in place.walk()}


@pytest.fixture
def savepoints(location: str) -> Savepoints:
    return Savepoints(location)


@pytest.fixture
def checkpoint(location: str) -> Callable[[str], Files]:
    return lambda job: files_at(parse(location).joined("checkpoints", job))


@pytest.fixture
def made(savepoints: Savepoints, checkpoint: Callable[[str], Files]) -> Manifest:
    write(checkpoint("j1"), tree(3))
    return savepoints.make(STOPPED, by="ada@laptop")


def test_a_savepoint_is_restored_just_as_it_was_made(
    savepoints: Savepoints, checkpoint: Callable[[str], Files], made: Manifest
) -> None:
    write(checkpoint("j1"), {"query-1/offsets/3": b"later"})
    assert (made.job, made.version, made.ancestors, made.batches) == ("j1", 2, ("j0",), {"query-1/": 2})
    savepoints.restore(savepoints.find(made.id), "j2")
    kept = {path: data for path, data in tree(3).items() if not path.startswith("_holdfast/")}
    assert contents(checkpoint("j2")) == kept
    assert savepoints.all() == [made]


def test_of_a_running_job_only_what_is_committed_is_kept(savepoints: Savepoints, checkpoint: Callable[[str], Files]) -> None:
    write(checkpoint("j1"), tree(3) | {"query-1/offsets/3": b"begun", "query-1/state/0/0/4.delta": b"half"})
    made = savepoints.make(RUNNING, by="")
    paths = {file.path for file in made.files}
    assert "query-1/offsets/2" in paths
    assert not {"query-1/offsets/3", "query-1/state/0/0/4.delta"} & paths


def test_bytes_are_told_as_they_are_copied(savepoints: Savepoints, checkpoint: Callable[[str], Files]) -> None:
    write(checkpoint("j1"), tree(3))
    told: list[int] = []

    def begin(total: int) -> Callable[[int], None]:
        told.append(-total)
        return told.append

    made = savepoints.make(STOPPED, by="", begin=begin)
    assert (told[0], sum(told[1:])) == (-made.size, made.size)


def test_what_was_interrupted_is_no_savepoint_and_leaves_nothing(
    savepoints: Savepoints, checkpoint: Callable[[str], Files], location: str
) -> None:
    write(checkpoint("j1"), tree(3))

    def begin(_total: int) -> Callable[[int], None]:
        def advance(_more: int) -> None:
            raise Unavailable("somebody pulled the plug")

        return advance

    with pytest.raises(Unavailable, match="pulled the plug"):
        savepoints.make(STOPPED, by="", begin=begin)
    assert savepoints.all() == []
    assert files_at(parse(location).joined("savepoints")).walk() == {}


def test_a_half_of_one_is_not_listed_nor_restored(savepoints: Savepoints, made: Manifest, location: str) -> None:
    files_at(parse(location).joined("savepoints", made.id)).remove_file("manifest.json")
    assert savepoints.all() == []
    with pytest.raises(Refused, match="there is no savepoint"):
        savepoints.find(made.id)


@pytest.mark.parametrize("damage", ["changed", "shorter", "missing"])
def test_damage_is_found_before_anything_starts_from_it(
    savepoints: Savepoints, checkpoint: Callable[[str], Files], made: Manifest, location: str, damage: str
) -> None:
    data = files_at(parse(location).joined("savepoints", made.id, "data"))
    path = "query-1/state/0/0/2.delta"
    if damage == "missing":
        data.remove_file(path)
    else:
        write(data, {path: b"\x07" * (1000 if damage == "changed" else 10)})
    with pytest.raises(Damaged, match=r"state/0/0/2\.delta is (damaged|missing)"):
        savepoints.restore(made, "j2")
    assert checkpoint("j2").walk() == {}


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"\xff", b'{"format": 2}', b'{"format":1,"files":[{"path":"../x","size":1,"sha256":"0"}]}']
)
def test_noise_in_a_manifest_is_a_sentence(savepoints: Savepoints, made: Manifest, location: str, text: bytes) -> None:
    write(files_at(parse(location).joined("savepoints", made.id)), {"manifest.json": text})
    with pytest.raises(Damaged):
        savepoints.find(made.id)


def test_what_leads_out_of_the_folder_is_no_manifest(savepoints: Savepoints, made: Manifest, location: str) -> None:
    fields = json.loads(made.encode())
    fields["files"][0]["path"] = "../../outside"
    write(files_at(parse(location).joined("savepoints", made.id)), {"manifest.json": json.dumps(fields).encode()})
    with pytest.raises(Damaged):
        savepoints.find(made.id)


def test_a_job_that_has_committed_nothing_has_nothing_to_keep(
    savepoints: Savepoints, checkpoint: Callable[[str], Files]
) -> None:
    write(checkpoint("j1"), {"query-1/metadata": b"{}", "query-1/offsets/0": b"v1"})
    with pytest.raises(Refused, match="has committed no batch yet"):
        savepoints.make(STOPPED, by="")


def test_a_checkpoint_is_taken_over_whole_with_the_batch_that_was_begun(
    savepoints: Savepoints, checkpoint: Callable[[str], Files]
) -> None:
    write(checkpoint("j1"), tree(3) | {"query-1/offsets/3": b"begun"})
    assert savepoints.take_over(STOPPED, "j2") == {"query-1/": 2}
    assert contents(checkpoint("j2"))["query-1/offsets/3"] == b"begun"


def test_nothing_is_copied_over_what_is_there(
    savepoints: Savepoints, checkpoint: Callable[[str], Files], made: Manifest
) -> None:
    write(checkpoint("j2"), {"query-1/offsets/0": b"somebody's"})
    with pytest.raises(Refused, match="there is something in"):
        savepoints.restore(made, "j2")
    assert contents(checkpoint("j2")) == {"query-1/offsets/0": b"somebody's"}


def test_removed_is_gone(savepoints: Savepoints, made: Manifest, location: str) -> None:
    savepoints.remove(made.id)
    assert files_at(parse(location).joined("savepoints")).walk() == {}
    with pytest.raises(HoldfastError, match="there is no savepoint"):
        savepoints.remove(made.id)


class Moving:
    """A checkpoint from which Spark removes an old batch while it is copied."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self.listings = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def walk(self) -> dict[str, int]:
        self.listings += 1
        return self._files.walk() | {self._path: 10}


@pytest.fixture
def moving(
    savepoints: Savepoints, checkpoint: Callable[[str], Files], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Moving]]:
    def make(path: str) -> Moving:
        write(checkpoint("j1"), tree(100))
        files = Moving(checkpoint("j1"), path)
        monkeypatch.setattr(savepoints, "_checkpoint", lambda _job: files)
        return files

    yield make


def test_an_old_file_that_vanishes_meanwhile_is_not_missed(savepoints: Savepoints, moving: Callable[[str], Moving]) -> None:
    moving("query-1/state/0/0/7.zip")
    made = savepoints.make(RUNNING, by="")
    assert made.batches == {"query-1/": 99}
    assert "query-1/state/0/0/7.zip" not in {file.path for file in made.files}


def test_a_job_that_goes_on_faster_than_it_can_be_copied_says_so(
    savepoints: Savepoints, moving: Callable[[str], Moving]
) -> None:
    files = moving("query-1/state/0/0/98.zip")
    with pytest.raises(Unavailable, match="faster than its checkpoint can be copied"):
        savepoints.make(RUNNING, by="")
    assert files.listings == 6
    assert savepoints.all() == []


def test_a_directory_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "j1").mkdir(parents=True)
    write(files_at(parse(str(tmp_path / "checkpoints" / "j1"))), tree(1))
    (tmp_path / "savepoints").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot"):
        Savepoints(str(tmp_path)).make(STOPPED, by="")
