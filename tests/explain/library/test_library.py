"""Library of formats, events, rules and signatures: every example matches its declaration."""

from pathlib import Path

import pytest

from holdfast.cli.commands.explain import explain
from holdfast.errors import Refused
from holdfast.explain.library import Library, load_library
from holdfast.explain.library.event_pattern import EventPattern
from holdfast.explain.library.log_format import LogFormat
from holdfast.explain.scan.block import scan_block
from holdfast.explain.scan.event_matcher import MATCHED_BYTES_MAX, EventMatch, match_events
from holdfast.explain.scan.literal_search import search_literals
from holdfast.explain.scan.mode_detection import detect_mode
from holdfast.explain.scan.record_scan import FileMode

KNOWN = load_library()


def matches_in(data: bytes, mode: FileMode, library: Library) -> list[EventMatch]:
    """Return the events that the records of `data` match."""
    block = scan_block(data, len(data), mode, library, file=0, offset=0, line=0, compiled=False)
    begins, ends = block.records.search_begins, block.records.search_ends
    hits = search_literals(data, begins, ends, library.patterns.literals, compiled=False)
    return [match for match in match_events(block, hits) if match.record >= 0]


@pytest.mark.parametrize("format", KNOWN.formats.all, ids=lambda format: format.name)
def test_every_example_of_a_format_is_a_record_with_a_time(format: LogFormat) -> None:
    assert format.examples
    for example in format.examples:
        if format.prefix:
            assert format.header.match(example)
            continue  # it is no record on its own: see test_odd_files
        mode = FileMode.PROSE if format.prose else FileMode.LOG
        block = scan_block(example.encode(), len(example.encode()), mode, KNOWN, file=0, offset=0, line=0, compiled=False)
        assert len(block.records.starts) == 1
        header = format.read_header(example)
        assert header.timestamp is not None
        assert header.format == format.clock


@pytest.mark.slow
@pytest.mark.parametrize("pattern", KNOWN.patterns.all, ids=lambda pattern: f"{pattern.kind}: {pattern.literals[0]}")
def test_every_example_of_an_event_matches_that_event(pattern: EventPattern) -> None:
    assert pattern.examples
    for example in pattern.examples:
        data = example.encode()
        assert pattern.kind in [match.kind for match in matches_in(data, detect_mode(data, KNOWN), KNOWN)]
        fields = pattern.match_fields(example)
        assert fields is not None
        assert "?" not in pattern.describe(fields), "the example has all fields of the description"


def test_every_literal_occurs_in_an_example() -> None:
    """A literal that occurs in no line of the event takes time and finds nothing."""
    for pattern in KNOWN.patterns.all:
        for literal in pattern.literals:
            assert any(literal in example for example in pattern.examples), literal


def test_rules_refer_to_known_events() -> None:
    kinds = {pattern.kind for pattern in KNOWN.patterns.all}
    for rule in KNOWN.rules:
        assert rule.cause | rule.effect <= kinds
    assert len(KNOWN.signatures) >= 16
    assert all(one.needs and one.advice for one in KNOWN.signatures.values())


@pytest.mark.slow
def test_user_library_adds_events_that_take_precedence(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    event = """
        [[event]]
        kind = "tea"
        system = "kettle"
        literals = ["is boiling"]
        match = '(?P<pot>\\w+) is boiling'
        says = "{pot} boils"
    """
    own.write_text(event)
    data = b"2026-11-16 12:00:01,001 INFO  kitchen.Kettle - pot7 is boiling\n"
    matches = matches_in(data, FileMode.LOG, load_library((str(own),)))
    assert [(match.kind, match.to_event().description) for match in matches] == [("tea", "pot7 boils")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        '[[event]]\nkind = "x"',
        '[[event]]\nkind="x"\nsystem="x"\nliterals=[""]\nmatch="x"\nsays="x"',
        '[[event]]\nkind="x"\nsystem="x"\nliterals=["x"]\nmatch="("\nsays="x"',
        '[[format]]\nname="x"\nshape="9"\nheader="("',
        '[[rule]]\ncause=["x"]\neffect=["y"]\nwithin="soon"\nsays="x"',
        '[[signature]]\nname="x"',
    ],
)
def test_invalid_library_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(Refused, match=r"own\.toml"):
        load_library((str(own),))
    with pytest.raises(Refused, match="cannot be read"):
        load_library((str(tmp_path / "none.toml"),))


def test_every_signature_and_every_option_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "explain.md").read_text()
    for one in KNOWN.signatures.values():
        assert f"| `{one.name}` | {one.needs} | {one.rules_out or '–'} |" in text
    for parameter in explain.params:
        for name in parameter.opts if parameter.param_type_name == "option" else ():
            assert f"`{name}" in text, name


@pytest.mark.slow
@pytest.mark.parametrize("pattern", KNOWN.patterns.all, ids=lambda pattern: f"{pattern.kind}: {pattern.literals[0]}")
def test_near_matches_do_not_cause_catastrophic_backtracking(pattern: EventPattern) -> None:
    """Match records of four kilobytes that repeat parts of an example."""
    names = {name.rstrip("0123456789") for name in pattern.match.groupindex}
    for example in pattern.examples:
        for cut in range(1, len(example) + 1, max(1, len(example) // 30)):
            for piece in (example[:cut], example[-cut:], example[cut // 2 : cut]):
                for text in (piece * (MATCHED_BYTES_MAX // len(piece)), piece + piece[-1] * MATCHED_BYTES_MAX):
                    found = pattern.match_fields(text)
                    assert found is None or found.keys() <= names
