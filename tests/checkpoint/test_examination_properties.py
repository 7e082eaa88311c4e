"""Examination of arbitrary file contents: it never raises, and damage always becomes a printable finding."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checkpoint import FileSinkLog, KnownQuery, Query, integrity, judge_query
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.file_sink import examine_sink_log
from holdfast.checkpoint.query import query_places
from holdfast.storage.checkpoint_access import decode_record
from tests.harness.checkpoint_trees import Files, build_file_tree, checkpoint_files, crc_file, sink_log_files, with_state

UNDAMAGED = with_state(checkpoint_files(5), 5)
NEEDED = ["metadata", "offsets/5", "offsets/4", "commits/4", *(f"sources/0/{batch}" for batch in range(6))]
contents = st.one_of(
    st.binary(max_size=300),
    st.sampled_from(sorted(UNDAMAGED)).flatmap(lambda path: st.integers(0, 400).map(lambda size: UNDAMAGED[path][:size])),
    st.text(max_size=100).map(lambda text: f"v1\n{text}".encode(errors="replace")),
    st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda each: st.lists(each, max_size=3), max_leaves=5).map(
        lambda value: f"v1\n{value}".encode(errors="replace")
    ),
)
names = st.one_of(
    st.sampled_from(sorted(UNDAMAGED)), st.from_regex(r"(offsets|commits|sources/0|state/0/0)/[0-9]{1,18}", fullmatch=True)
)


@pytest.mark.slow
@given(st.dictionaries(names, contents, max_size=4), st.sets(st.sampled_from(sorted(UNDAMAGED)), max_size=4))
@settings(max_examples=400, deadline=None)
def test_findings_are_printable_for_any_content(changed: Files, missing: set[str]) -> None:
    files = {path: data for path, data in {**UNDAMAGED, **changed}.items() if path not in missing}
    query = examine(build_file_tree(files))
    for finding in query.findings:
        assert finding.file and finding.problem and str(finding).isprintable()
    assert decode_record(Query, dataclasses.asdict(query)) == query, "it survives encoding"
    assert query_places(build_file_tree({f"q/{path}": data for path, data in files.items()})) in ([], ["q"])


@pytest.mark.slow
@given(st.sampled_from(NEEDED), contents)
@settings(max_examples=300, deadline=None)
def test_changed_content_of_a_needed_file_is_found(path: str, data: bytes) -> None:
    query = examine(build_file_tree({**UNDAMAGED, path: data}))
    if not any(finding.harms for finding in query.findings):
        assert path == "commits/4" or _same_meaning(path, data)


def _same_meaning(path: str, data: bytes) -> bool:
    """Return True if the difference is harmless: JSON spelling, the query's id, or the times of offsets."""
    return data == UNDAMAGED[path] or path in ("metadata", "offsets/4", "offsets/5") or data.split() == UNDAMAGED[path].split()


def _next_batch(query: Query) -> int:
    return 0 if query.committed is None else query.committed + 1


@pytest.mark.slow
@given(st.dictionaries(names, contents, max_size=3), st.sampled_from(["parquet", "noop", "kafka", "foreachBatch", ""]))
@settings(max_examples=200, deadline=None)
def test_only_newest_offsets_without_effect_on_the_sink_are_set_aside(changed: Files, format: str) -> None:
    query = examine(build_file_tree({**UNDAMAGED, **changed}))
    for newest in (None, 4, 5, 6):
        verdict = judge_query(
            query, KnownQuery("/c", format=format, path="/out"), FileSinkLog(newest) if format == "parquet" else None
        )
        if verdict.batch_to_set_aside is not None:
            assert not verdict.problems
            assert verdict.batch_to_set_aside == query.planned == _next_batch(query)
            assert format == "noop" or (format == "parquet" and newest in (None, 4))


@given(st.binary(max_size=2000), st.binary(max_size=60))
def test_integrity_checks_accept_any_bytes(data: bytes, other: bytes) -> None:
    assert integrity.check_crc(data, crc_file(data)) is None
    for problem in (
        integrity.check_crc(data, other),
        integrity.check_state_file("1.zip", data, codec="lz4"),
        integrity.check_state_file("1.delta", data, codec="lz4"),
    ):
        assert problem is None or problem.isprintable()


@given(st.binary(min_size=1, max_size=2000), st.integers(0), st.integers(1, 255))
def test_checksum_detects_one_changed_byte(data: bytes, position: int, mask: int) -> None:
    position %= len(data)
    changed = data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
    assert integrity.check_crc(changed, crc_file(data)) is not None
    assert integrity.check_crc(data[:-1], crc_file(data)) is not None


@pytest.mark.slow
@given(st.dictionaries(st.from_regex(r"[0-9]{1,18}(\.compact)?", fullmatch=True), contents, max_size=4))
def test_sink_log_with_any_content_is_examined(changed: Files) -> None:
    for finding in examine_sink_log(build_file_tree({**sink_log_files(4), **changed})).findings:
        assert str(finding).isprintable()
