"""What is known of other systems is declared with examples, and each example is read as what it is an example of."""

from pathlib import Path

import pytest

from holdfast.cli.commands.explain import explain
from holdfast.errors import Refused
from holdfast.explain.library import library
from holdfast.explain.library.event_pattern import Pattern
from holdfast.explain.library.log_format import Format
from holdfast.explain.scan.block import findings, mode_of
from holdfast.explain.scan.event_matcher import MATCHED_BYTES_MAX
from holdfast.explain.scan.record_scan import Mode

KNOWN = library()


@pytest.mark.parametrize("format", KNOWN.formats.all, ids=lambda format: format.name)
def test_every_example_of_a_format_is_a_record_of_that_format_with_a_time(format: Format) -> None:
    assert format.examples
    for example in format.examples:
        mode = Mode.PROSE if format.prose else Mode.LOG
        found = findings(example.encode(), len(example.encode()), mode, KNOWN, file=0, offset=0, line=0, compiled=False)
        assert found.records == 1
        header = format.read(example)
        assert header.moment is not None
        assert header.format == format.clock


@pytest.mark.parametrize("pattern", KNOWN.patterns.all, ids=lambda pattern: f"{pattern.kind}: {pattern.literals[0]}")
def test_every_example_of_an_event_is_found_as_that_event(pattern: Pattern) -> None:
    assert pattern.examples
    for example in pattern.examples:
        data = example.encode()
        mode = mode_of(data, KNOWN)
        found = findings(data, len(data), mode, KNOWN, file=0, offset=0, line=0, compiled=False)
        assert pattern.kind in [event.kind for event in found.events]
        fields = pattern.fields(example)
        assert fields is not None
        assert "?" not in pattern.sentence(fields), "what the sentence names is in the example"


def test_every_literal_of_an_event_finds_it_in_an_example() -> None:
    """One that stands in no line that is the event costs time, and finds nothing."""
    for pattern in KNOWN.patterns.all:
        for literal in pattern.literals:
            assert any(literal in example for example in pattern.examples), literal


def test_rules_and_signatures_speak_of_events_that_there_are() -> None:
    kinds = {pattern.kind for pattern in KNOWN.patterns.all}
    for rule in KNOWN.rules:
        assert rule.cause | rule.effect <= kinds
    assert len(KNOWN.signatures) >= 16
    assert all(one.needs and one.advice for one in KNOWN.signatures.values())


def test_a_user_can_add_events_and_theirs_come_first(tmp_path: Path) -> None:
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
    found = findings(data, len(data), Mode.LOG, library((str(own),)), file=0, offset=0, line=0, compiled=False)
    assert [(one.kind, one.event().says) for one in found.events] == [("tea", "pot7 boils")]


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
def test_a_library_that_cannot_be_used_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(Refused, match=r"own\.toml"):
        library((str(own),))
    with pytest.raises(Refused, match="cannot be read"):
        library((str(tmp_path / "none.toml"),))


def test_every_signature_and_every_option_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "explain.md").read_text()
    for one in KNOWN.signatures.values():
        assert f"| `{one.name}` | {one.needs} | {one.rules_out or '–'} |" in text
    for parameter in explain.params:
        for name in parameter.opts if parameter.param_type_name == "option" else ():
            assert f"`{name}" in text, name


@pytest.mark.parametrize("pattern", KNOWN.patterns.all, ids=lambda pattern: f"{pattern.kind}: {pattern.literals[0]}")
def test_what_is_nearly_an_event_is_soon_known_to_be_none(pattern: Pattern) -> None:
    """Of a record of four kilobytes, every beginning of which begins like one: trying all ways would not end."""
    names = {name.rstrip("0123456789") for name in pattern.match.groupindex}
    for example in pattern.examples:
        for cut in range(1, len(example) + 1, max(1, len(example) // 30)):
            for piece in (example[:cut], example[-cut:], example[cut // 2 : cut]):
                for text in (piece * (MATCHED_BYTES_MAX // len(piece)), piece + piece[-1] * MATCHED_BYTES_MAX):
                    found = pattern.fields(text)
                    assert found is None or found.keys() <= names
