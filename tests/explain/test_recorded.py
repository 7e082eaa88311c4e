"""Logs of real faults: what was done to the processes is found, and in those of healthy runs nothing is."""

import gzip
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from holdfast.explain.library import library
from holdfast.explain.report.answer import Answer
from holdfast.explain.timeline.occurrence import Happening
from tests.harness.explain_in_process import asked

RECORDED = Path(__file__).with_name("recorded")
# What a machine's own names look like: see `record/keeping.py`.
_OF_A_MACHINE = re.compile(rb"/tmp/|/root\b|/home/|pytest-")


@dataclass(frozen=True, slots=True)
class Labelled:
    name: str
    must: frozenset[str]
    may: frozenset[str]
    """With those that must."""
    root: str

    @property
    def answer(self) -> Answer:
        return _answer(RECORDED / self.name)

    def found(self) -> tuple[str, ...]:
        """The root first."""
        return tuple(one.signature for one in self.answer.diagnoses)


@cache
def _answer(directory: Path) -> Answer:
    return asked(directory)


def labelled() -> list[Labelled]:
    told = tomllib.loads((RECORDED / "labels.toml").read_text())
    return [
        Labelled(name, frozenset(case["must"]), frozenset([*case["must"], *case.get("may", ())]), case.get("root", ""))
        for name, case in told.items()
    ]


CASES = labelled()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_was_done_is_found_and_nothing_else(case: Labelled) -> None:
    found = case.found()
    assert case.must <= set(found), "missed"
    assert set(found) <= case.may, "made up"
    assert not case.root or found[0] == case.root, "the root is another"


def chain(name: str, signature: str) -> list[Happening]:
    (told,) = (one for one in _answer(RECORDED / name).diagnoses if one.signature == signature)
    return [link.happening for link in told.chain]


@pytest.mark.parametrize(
    ("name", "followed"),
    [
        ("flink-rolling-restart", "leadership-lost-on-suspend"),
        ("spark-masters-rolling-restart", "leadership-lost-on-suspend"),
        ("zookeeper-simultaneous-stall", "zk-quorum-lost"),
    ],
)
def test_what_followed_is_traced_to_what_shows_the_root(name: str, followed: str) -> None:
    root = _answer(RECORDED / name).diagnoses[0]
    assert chain(name, followed)[0] in root.evidence


def test_a_session_is_traced_from_the_silence_of_its_client_and_not_from_what_was_before_it() -> None:
    """When the servers had just been started, they looked for a leader: that has nothing to do with it."""
    steps = chain("kafka-session-lost", "kafka-broker-session-lost")
    assert [one.kind for one in steps] == [
        "client-disconnected",
        "zk-session-expired",
        "client-expired",
        "kafka-session-expired",
    ]
    assert [one.begin_ms for one in steps] == sorted(one.begin_ms for one in steps)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_was_recorded_on_one_machine_so_no_clock_is_moved(case: Labelled) -> None:
    """Among them those that tell whole seconds."""
    assert {one["clock_offset_ms"] for one in case.answer.json()["components"]} == {0}


def test_precision_and_recall_over_what_was_recorded(report: Callable[[str], None]) -> None:
    right = wrong = missed = 0
    for case in CASES:
        found = set(case.found())
        right += len(found & case.must)
        wrong += len(found - case.may)
        missed += len(case.must - found)
    precision, recall = right / (right + wrong), right / (right + missed)
    report(f"explain: {len(CASES)} recordings of real runs, precision {precision:.3f}, recall {recall:.3f}")
    assert (precision, recall) == (1, 1)


def test_every_recording_has_labels_and_every_label_is_a_signature() -> None:
    assert {case.name for case in CASES} == {one.name for one in RECORDED.iterdir() if one.is_dir()}
    assert {signature for case in CASES for signature in case.may} <= set(library().signatures)
    assert sum(not case.may for case in CASES) >= 5, "runs in which nothing happened"


def test_recordings_name_no_machine() -> None:
    for file in RECORDED.rglob("*.gz"):
        assert not (told := _OF_A_MACHINE.search(gzip.decompress(file.read_bytes()))), f"{file.name}: {told}"
