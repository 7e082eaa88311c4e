"""What holds of every answer, whatever was read."""

import json
import re
from datetime import datetime
from typing import Any

from holdfast.explain.report.answer import Answer
from tests.explain.mutations import Mutant

KEYS = {"summary", "diagnoses", "components", "counts", "lives", "bursts", "looks", "notes"}
DIAGNOSIS_KEYS = {
    "signature", "title", "confidence", "start", "end", "components", "explanation", "advice", "root", "issues", "evidence",
    "chain",
}  # fmt: skip
COUNTS = {"bytes", "lines", "records", "events", "unparsed_lines"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def lines_of(data: bytes) -> int:
    return data.count(b"\n") + (len(data) > 0 and not data.endswith(b"\n"))


def counts_add_up(answer: Answer, files: list[Mutant]) -> None:
    found = answer.gathered
    for one, counts in zip(files, found.of_files, strict=True):
        if not one.damaged:
            assert counts.bytes == len(one.data)
            assert counts.lines == lines_of(one.data)
        assert counts.records + counts.unparsed_lines <= counts.lines
    assert sum(look.count for look in found.looks) + found.other_records == found.counts.records
    assert sum(1 + event.again for event in found.events) + found.dropped.total() == found.counts.events
    dated = sum(1 + event.again for event in found.events if event.ms is not None)
    assert sum(one.count for one in answer.happenings) == dated


def evidence_stands_where_it_is_said_to(answer: Answer, files: list[Mutant]) -> None:
    for event in answer.gathered.events:
        one = files[event.file]
        if one.damaged and not one.data[event.offset :].startswith(one.stored[: len(one.data) - event.offset] or b"\0"):
            continue  # what is there is anybody's guess
        assert event.offset == 0 or one.data[event.offset - 1] == ord("\n")
        assert event.line == one.data.count(b"\n", 0, event.offset) + 1
        line = one.data[event.offset :].split(b"\n", 1)[0].decode("utf-8", "replace")
        before, text, _ = _COLOURS.sub("", line).partition(event.text)
        assert text == event.text, line
        assert not before.replace("\ufeff", "").strip(), line


def contract_is_kept(told: dict[str, Any]) -> str:
    """The answer as it would be written."""
    assert told.keys() == KEYS
    assert told["counts"].keys() == COUNTS
    for one in told["diagnoses"]:
        assert one.keys() - {"groups"} == DIAGNOSIS_KEYS
        assert one["evidence"]
        assert one["chain"]
        assert 0 <= one["confidence"] <= 1
        moments = [one["start"], one["end"], *(link["time"] for link in one["chain"])]
        moments += [group["onset"] for group in one.get("groups", ())]
        for moment in moments:
            assert _TIME.fullmatch(moment), moment
            datetime.fromisoformat(moment)
        assert one["start"] <= one["end"]
    assert sum(one["root"] for one in told["diagnoses"]) == bool(told["diagnoses"])
    text = json.dumps(told, ensure_ascii=False)
    text.encode()
    return text
