"""Data of the HTML page. A hundred thousand occurrences are columns of numbers; each sentence is stored once."""

from typing import Any

from holdfast.explain.diagnose import Diagnosis
from holdfast.explain.report.answer import Answer
from holdfast.explain.timeline.occurrence import Occurrence

TEMPLATES_LISTED_MAX = 200
"""Templates listed with their text. The others are counted."""


def page_data(answer: Answer) -> dict[str, Any]:
    document = answer.as_json()
    numbers = {id(one): number for number, one in enumerate(answer.occurrences)}
    for shown, one in zip(document["diagnoses"], answer.diagnoses, strict=True):
        shown.update(_diagnosis(one, numbers))
    columns = _columns(answer, document["components"])
    return {**document, "files": list(answer.scan.files), **columns, "templates": _templates(answer)}


def _diagnosis(one: Diagnosis, numbers: dict[int, int]) -> dict[str, Any]:
    """Return evidence and chain as indexes of occurrences, so that each occurrence is stored once."""
    return {
        "begin": one.begin_ms,
        "end": one.end_ms,
        "evidence": [numbers[id(occurrence)] for occurrence in one.evidence],
        "chain": [[numbers[id(link.occurrence)], link.rule, link.delay_ms] for link in one.chain],
    }


def _columns(answer: Answer, components: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one column per property. `begin` is relative to the previous one, `end` and `last` to `begin`: most are small."""
    lanes = {(one["name"], one["kind"]): number for number, one in enumerate(components)}
    kinds, sentences = _TextTable(), _TextTable()
    occurrences = answer.occurrences
    columns = {
        "begin": _differences([one.begin_ms for one in occurrences]),
        "end": [one.end_ms - one.begin_ms for one in occurrences],
        "last": [max(0, one.last_ms - one.begin_ms) for one in occurrences],
        "count": [one.count for one in occurrences],
        "component": [lanes[_component(answer, one)] for one in occurrences],
        "kind": [kinds.number(one.kind) for one in occurrences],
        "says": [sentences.number(one.event.description) for one in occurrences],
        "file": [one.event.file for one in occurrences],
        "line": [one.event.line for one in occurrences],
        "offset": [one.event.offset for one in occurrences],
        "text": [one.event.text for one in occurrences],
    }
    return {"columns": columns, "kinds": kinds.texts, "sentences": sentences.texts}


def _component(answer: Answer, one: Occurrence) -> tuple[str, str]:
    component = answer.components[one.event.file, one.event.offset]
    return component.name, component.kind


def _templates(answer: Answer) -> dict[str, Any]:
    """Return the listed templates, the number of others, and the number of all other records."""
    listed, others = answer.scan.templates[:TEMPLATES_LISTED_MAX], answer.scan.templates[TEMPLATES_LISTED_MAX:]
    return {
        "named": [[one.count, one.file, one.first_offset, one.text] for one in listed],
        "others": len(others),
        "other_records": sum(one.count for one in others) + answer.scan.uncounted_records,
    }


def _differences(numbers: list[int]) -> list[int]:
    return [number - before for before, number in zip([0, *numbers], numbers, strict=False)]


class _TextTable:
    """Distinct texts, numbered in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        return list(self._numbers)
