"""What the page is told. A hundred thousand happenings are columns of numbers, and sentences that are said once."""

from typing import Any

from holdfast.explain.diagnose import Diagnosis
from holdfast.explain.report.answer import Answer
from holdfast.explain.timeline.occurrence import Happening

LOOKS_MAX = 200
"""Looks that are named. The others are counted."""


def data(answer: Answer) -> dict[str, Any]:
    told = answer.json()
    numbers = {id(one): number for number, one in enumerate(answer.happenings)}
    for shown, one in zip(told["diagnoses"], answer.diagnoses, strict=True):
        shown.update(_diagnosis(one, numbers))
    return {**told, "files": list(answer.gathered.files), **_happenings(answer, told["components"]), "looks": _looks(answer)}


def _diagnosis(one: Diagnosis, numbers: dict[int, int]) -> dict[str, Any]:
    """Evidence and chain by the numbers of happenings, each of which is told once."""
    return {
        "begin": one.begin_ms,
        "end": one.end_ms,
        "evidence": [numbers[id(happening)] for happening in one.evidence],
        "chain": [[numbers[id(link.happening)], link.rule, link.delay_ms] for link in one.chain],
    }


def _happenings(answer: Answer, components: list[dict[str, Any]]) -> dict[str, Any]:
    """A column for each thing to know. `begin` counts from the one before, `end` and `last` from `begin`: most are small."""
    lanes = {(one["name"], one["kind"]): number for number, one in enumerate(components)}
    kinds, sentences = _Numbered(), _Numbered()
    all_ = answer.happenings
    columns = {
        "begin": _differences([one.begin_ms for one in all_]),
        "end": [one.end_ms - one.begin_ms for one in all_],
        "last": [max(0, one.last_ms - one.begin_ms) for one in all_],
        "count": [one.count for one in all_],
        "component": [lanes[_owner(answer, one)] for one in all_],
        "kind": [kinds.number(one.kind) for one in all_],
        "says": [sentences.number(one.event.says) for one in all_],
        "file": [one.event.file for one in all_],
        "line": [one.event.line for one in all_],
        "offset": [one.event.offset for one in all_],
        "text": [one.event.text for one in all_],
    }
    return {"happenings": columns, "kinds": kinds.texts, "sentences": sentences.texts}


def _owner(answer: Answer, one: Happening) -> tuple[str, str]:
    owner = answer.owners[one.event.file, one.event.offset]
    return owner.name, owner.kind


def _looks(answer: Answer) -> dict[str, Any]:
    """Those that are named, those that are not, and records of which nothing but their number is known: together, all."""
    named, others = answer.gathered.looks[:LOOKS_MAX], answer.gathered.looks[LOOKS_MAX:]
    return {
        "named": [[look.count, look.file, look.first_offset, look.text] for look in named],
        "others": len(others),
        "other_records": sum(look.count for look in others) + answer.gathered.other_records,
    }


def _differences(numbers: list[int]) -> list[int]:
    return [number - before for before, number in zip([0, *numbers], numbers, strict=False)]


class _Numbered:
    """Texts by the order in which they first came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        return list(self._numbers)
