"""Checks that hold for every answer, whatever the input."""

import json
import re
from datetime import datetime
from typing import Any

from holdfast.explain.report.answer import Answer
from tests.explain.mutations import Mutant

KEYS = {"summary", "diagnoses", "components", "counts", "lifetimes", "bursts", "templates", "notes", "complete", "errors"}
DIAGNOSIS_KEYS = {
    "signature", "title", "confidence", "start", "end", "components", "explanation", "advice", "root", "issues", "evidence",
    "chain",
}  # fmt: skip  # one item per line is harder to read
COUNTS = {"bytes", "lines", "records", "events", "unparsed_lines"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def lines_of(data: bytes) -> int:
    return data.count(b"\n") + (len(data) > 0 and not data.endswith(b"\n"))


def check_counts(answer: Answer, files: list[Mutant]) -> None:
    found = answer.scan
    for one, counts in zip(files, found.counts_by_file, strict=True):
        if not one.damaged:
            assert counts.bytes == len(one.data)
            assert counts.lines == lines_of(one.data)
        assert counts.records + counts.unparsed_lines <= counts.lines
    assert sum(template.count for template in found.templates) + found.uncounted_records == found.counts.records
    assert sum(1 + event.repetitions.total for event in found.events) + found.dropped.total() == found.counts.events
    dated = sum(1 + event.repetitions.total for event in found.events if event.ms is not None)
    assert sum(one.count for one in answer.occurrences) == dated


def check_positions(answer: Answer, files: list[Mutant]) -> None:
    for event in answer.scan.events:
        one = files[event.file]
        if one.damaged and not one.data[event.offset :].startswith(one.stored[: len(one.data) - event.offset] or b"\0"):
            continue  # the contents of a damaged file are undefined
        assert event.offset == 0 or one.data[event.offset - 1] == ord("\n")
        assert event.line == one.data.count(b"\n", 0, event.offset) + 1
        line = one.data[event.offset :].split(b"\n", 1)[0].decode("utf-8", "replace")
        before, text, _ = _COLOURS.sub("", line).partition(event.text)
        assert text == event.text, line
        assert not before.replace("\ufeff", "").strip(), line


def check_json(document: dict[str, Any]) -> str:
    """Check the keys and values of the JSON answer, and return its text."""
    assert document.keys() == KEYS
    assert document["counts"].keys() == COUNTS
    for one in document["diagnoses"]:
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
    assert sum(one["root"] for one in document["diagnoses"]) == bool(document["diagnoses"])
    text = json.dumps(document, ensure_ascii=False)
    text.encode()
    return text
