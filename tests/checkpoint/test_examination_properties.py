"""Whatever stands in the files of a checkpoint: never an exception, always a sentence, and no harm without one."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checkpoint import KnownQuery, Query, Sink, integrity, judge
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.file_sink import sink_of
from holdfast.checkpoint.query import places
from holdfast.storage.checkpoint_access import record_of
from tests.harness.checkpoint_trees import Files, checkpoint, checksums, sink, tree, with_state

GOOD = with_state(checkpoint(5), 5)
NEEDED = ["metadata", "offsets/5", "offsets/4", "commits/4", *(f"sources/0/{batch}" for batch in range(6))]
garbage = st.one_of(
    st.binary(max_size=300),
    st.sampled_from(sorted(GOOD)).flatmap(lambda path: st.integers(0, 400).map(lambda size: GOOD[path][:size])),
    st.text(max_size=100).map(lambda text: f"v1\n{text}".encode(errors="replace")),
    st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda each: st.lists(each, max_size=3), max_leaves=5).map(
        lambda value: f"v1\n{value}".encode(errors="replace")
    ),
)
names = st.one_of(
    st.sampled_from(sorted(GOOD)), st.from_regex(r"(offsets|commits|sources/0|state/0/0)/[0-9]{1,18}", fullmatch=True)
)


@given(st.dictionaries(names, garbage, max_size=4), st.sets(st.sampled_from(sorted(GOOD)), max_size=4))
@settings(max_examples=400, deadline=None)
def test_any_content_is_judged_in_sentences(changed: Files, missing: set[str]) -> None:
    files = {path: data for path, data in {**GOOD, **changed}.items() if path not in missing}
    query = examine(tree(files))
    for finding in query.findings:
        assert finding.file and finding.problem and str(finding).isprintable()
    assert record_of(Query, dataclasses.asdict(query)) == query, "it survives the way from one process to another"
    assert places(tree({f"q/{path}": data for path, data in files.items()})) in ([], ["q"])


@given(st.sampled_from(NEEDED), garbage)
@settings(max_examples=300, deadline=None)
def test_no_other_content_of_a_file_that_is_read_passes_for_the_original(path: str, data: bytes) -> None:
    query = examine(tree({**GOOD, path: data}))
    if not any(finding.harms for finding in query.findings):
        assert path == "commits/4" or _same_meaning(path, data)


def _same_meaning(path: str, data: bytes) -> bool:
    """JSON can be spelled in several ways, and a query's id or an offset's times can be anything."""
    return data == GOOD[path] or path in ("metadata", "offsets/4", "offsets/5") or data.split() == GOOD[path].split()


@given(st.dictionaries(names, garbage, max_size=3), st.sampled_from(["parquet", "noop", "kafka", "foreachBatch", ""]))
@settings(max_examples=200, deadline=None)
def test_a_plan_is_only_set_aside_if_it_is_the_newest_and_nothing_of_it_took_effect(changed: Files, format: str) -> None:
    query = examine(tree({**GOOD, **changed}))
    for newest in (None, 4, 5, 6):
        verdict = judge(query, KnownQuery("/c", format=format, path="/out"), Sink(newest) if format == "parquet" else None)
        if verdict.aside is not None:
            assert not verdict.problems
            assert verdict.aside == query.planned == query.next_batch
            assert format == "noop" or (format == "parquet" and newest in (None, 4))


@given(st.binary(max_size=2000), st.binary(max_size=60))
def test_checksums_and_shapes_can_be_anything(data: bytes, other: bytes) -> None:
    assert integrity.against_crc(data, checksums(data)) is None
    for words in (
        integrity.against_crc(data, other),
        integrity.of_state("1.zip", data, lz4=True),
        integrity.of_state("1.delta", data, lz4=True),
    ):
        assert words is None or words.isprintable()


@given(st.binary(min_size=1, max_size=2000), st.integers(0), st.integers(1, 255))
def test_one_changed_byte_is_seen_by_the_checksum(data: bytes, at: int, by: int) -> None:
    at %= len(data)
    changed = data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]
    assert integrity.against_crc(changed, checksums(data)) is not None
    assert integrity.against_crc(data[:-1], checksums(data)) is not None


@given(st.dictionaries(st.from_regex(r"[0-9]{1,18}(\.compact)?", fullmatch=True), garbage, max_size=4))
def test_a_sinks_log_can_be_anything(changed: Files) -> None:
    for finding in sink_of(tree({**sink(4), **changed})).findings:
        assert str(finding).isprintable()
