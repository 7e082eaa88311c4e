"""Selection of the checkpoint files that a savepoint contains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.savepoint.selection import last_committed_batches, select_files

PATHS = [
    "q/metadata",
    "q/.metadata.crc",
    "q/offsets/3",
    "q/offsets/4",
    "q/.offsets.crc",
    "q/offsets/.4.crc",
    "q/offsets/5",
    "q/offsets/.5.crc",
    "q/offsets/.6.0c1e.tmp",
    "q/offsets/..6.0c1e.tmp.crc",
    "q/commits/3",
    "q/commits/4",
    "q/sources/0/4",
    "q/sources/0/5",
    "q/sources/0/3.compact",
    "q/sources/orders/4",
    "q/sources/orders/5",
    "q/sources/orders/.5.crc",
    "q/sources/orders/9.compact",
    "q/state/0/0/4.delta",
    "q/state/0/0/5.delta",
    "q/state/0/0/6.delta",
    "q/state/0/1/5.zip",
    "q/state/0/1/6.zip",
    "q/state/0/1/5_3c2b-77.zip",
    "q/state/0/1/6.changelog",
    "q/state/0/1/SSTs/000008-1c2d.sst",
    "q/state/0/_metadata/metadata",
    "_holdfast/claim-1",
]
LEFT_OUT = {
    "q/offsets/5",
    "q/offsets/.5.crc",
    "q/offsets/.6.0c1e.tmp",
    "q/offsets/..6.0c1e.tmp.crc",
    "q/sources/0/5",
    "q/sources/orders/5",
    "q/sources/orders/.5.crc",
    "q/sources/orders/9.compact",
    "q/state/0/0/6.delta",
    "q/state/0/1/6.zip",
    "q/state/0/1/6.changelog",
    "_holdfast/claim-1",
}


def test_files_of_uncommitted_batches_are_left_out_while_the_job_runs() -> None:
    selection = select_files(PATHS, last_committed_batches(PATHS), running=True)
    assert selection.batches == {"q/": 4}
    assert set(PATHS) - set(selection.files) == LEFT_OUT


def test_stopped_job_keeps_all_files_except_claims_and_temporary_files() -> None:
    selection = select_files(PATHS, last_committed_batches(PATHS), running=False)
    assert {path for path in set(PATHS) - set(selection.files) if "tmp" not in path} == {"_holdfast/claim-1"}


def test_last_committed_batch_is_per_query() -> None:
    paths = ["a/commits/1", "a/offsets/2", "b/commits/7", "b/offsets/2", "b/offsets/8", "offsets/0", "commits/0"]
    selection = select_files(paths, last_committed_batches(paths), running=True)
    assert selection.batches == {"a/": 1, "b/": 7, "": 0}
    assert set(paths) - set(selection.files) == {"a/offsets/2", "b/offsets/8"}


@pytest.mark.parametrize(("path", "needed"), [("q/offsets/4", True), ("q/offsets/1", False), ("q/metadata", True)])
def test_file_of_an_old_batch_is_not_needed(path: str, needed: bool) -> None:
    selection = select_files([path], {"q/": 4}, running=True)
    assert selection.is_needed(path, recent_batches=2) == needed


@given(st.integers(0, 20), st.integers(0, 3))
def test_selection_ends_with_the_last_committed_batch(last: int, ahead: int) -> None:
    paths = [f"q/{folder}/{batch}" for folder in ("offsets", "sources/0") for batch in range(last + 1 + ahead)]
    paths += [f"q/commits/{batch}" for batch in range(last + 1)]
    paths += [f"q/state/0/0/{version}.delta" for version in range(1, last + 2 + ahead)]
    selection = select_files(paths, last_committed_batches(paths), running=True)
    assert selection.batches == {"q/": last}
    assert max(int(path.rpartition("/")[2]) for path in selection.files if "/offsets/" in path) == last
    assert f"q/state/0/0/{last + 1}.delta" in selection.files
    assert f"q/state/0/0/{last + 2}.delta" not in selection.files
