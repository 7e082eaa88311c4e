"""Which files belong to a copy of a checkpoint that is being written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.savepoint.selection import committed, cut

RUNNING = [
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
    "q/state/0/0/6.delta",
    "q/state/0/1/6.zip",
    "q/state/0/1/6.changelog",
    "_holdfast/claim-1",
}


def test_what_belongs_to_later_batches_is_left_out_while_the_job_runs() -> None:
    whole = cut(RUNNING, committed(RUNNING), running=True)
    assert whole.batches == {"q/": 4}
    assert set(RUNNING) - set(whole.files) == LEFT_OUT


def test_of_a_job_that_does_not_run_everything_is_kept_but_claims_and_unfinished_files() -> None:
    whole = cut(RUNNING, committed(RUNNING), running=False)
    assert {path for path in set(RUNNING) - set(whole.files) if "tmp" not in path} == {"_holdfast/claim-1"}


def test_each_query_has_its_own_last_batch() -> None:
    paths = ["a/commits/1", "a/offsets/2", "b/commits/7", "b/offsets/2", "b/offsets/8", "offsets/0", "commits/0"]
    whole = cut(paths, committed(paths), running=True)
    assert whole.batches == {"a/": 1, "b/": 7, "": 0}
    assert set(paths) - set(whole.files) == {"a/offsets/2", "b/offsets/8"}


@pytest.mark.parametrize(("path", "needed"), [("q/offsets/4", True), ("q/offsets/1", False), ("q/metadata", True)])
def test_what_is_old_is_not_needed(path: str, needed: bool) -> None:
    whole = cut([path], {"q/": 4}, running=True)
    assert whole.needs(path, slack=2) == needed


@given(st.integers(0, 20), st.integers(0, 3))
def test_a_cut_never_holds_what_its_last_batch_did_not_need(last: int, ahead: int) -> None:
    paths = [f"q/{folder}/{batch}" for folder in ("offsets", "sources/0") for batch in range(last + 1 + ahead)]
    paths += [f"q/commits/{batch}" for batch in range(last + 1)]
    paths += [f"q/state/0/0/{version}.delta" for version in range(1, last + 2 + ahead)]
    whole = cut(paths, committed(paths), running=True)
    assert whole.batches == {"q/": last}
    assert max(int(path.rpartition("/")[2]) for path in whole.files if "/offsets/" in path) == last
    assert f"q/state/0/0/{last + 1}.delta" in whole.files
    assert f"q/state/0/0/{last + 2}.delta" not in whole.files
