"""Recorded logs of real faults: each fault is diagnosed, and healthy runs have no diagnosis."""

import gzip
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from holdfast.explain.library import load_library
from holdfast.explain.report.answer import Answer
from holdfast.explain.timeline.occurrence import Occurrence
from tests.harness.explain_in_process import explain_logs

RECORDED = Path(__file__).with_name("recorded")
# Paths of the recording machine, which `record/log_store.py` replaces.
_MACHINE_NAME = re.compile(rb"/tmp/|/root\b|/home/|pytest-")


@dataclass(frozen=True, slots=True)
class LabelledRecording:
    name: str
    must: frozenset[str]
    may: frozenset[str]
    """Accepted diagnoses, including those in `must`."""
    root: str

    @property
    def answer(self) -> Answer:
        return _answer(RECORDED / self.name)

    def diagnosed(self) -> tuple[str, ...]:
        """Return the names of the diagnoses, the root first."""
        return tuple(one.signature for one in self.answer.diagnoses)


@cache
def _answer(directory: Path) -> Answer:
    return explain_logs(directory)


def load_labels() -> list[LabelledRecording]:
    labels = tomllib.loads((RECORDED / "labels.toml").read_text())
    return [
        LabelledRecording(name, frozenset(case["must"]), frozenset([*case["must"], *case.get("may", ())]), case.get("root", ""))
        for name, case in labels.items()
    ]


CASES = load_labels()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recording_has_exactly_the_labelled_diagnoses(case: LabelledRecording) -> None:
    found = case.diagnosed()
    assert case.must <= set(found), "missed"
    assert set(found) <= case.may, "unexpected"
    assert not case.root or found[0] == case.root, "wrong root"


def chain(name: str, signature: str) -> list[Occurrence]:
    (diagnosis,) = (one for one in _answer(RECORDED / name).diagnoses if one.signature == signature)
    return [link.occurrence for link in diagnosis.chain]


@pytest.mark.parametrize(
    ("name", "followed"),
    [
        ("flink-rolling-restart", "leadership-lost-on-suspend"),
        ("spark-masters-rolling-restart", "leadership-lost-on-suspend"),
        ("zookeeper-simultaneous-stall", "zk-quorum-lost"),
    ],
)
def test_consequence_is_traced_to_evidence_of_the_root(name: str, followed: str) -> None:
    root = _answer(RECORDED / name).diagnoses[0]
    assert chain(name, followed)[0] in root.evidence


def test_expired_session_is_traced_to_its_disconnected_client() -> None:
    """The election at the start of the servers is unrelated."""
    steps = chain("kafka-session-lost", "kafka-broker-session-lost")
    assert [one.kind for one in steps] == [
        "client-disconnected",
        "zk-session-expired",
        "client-expired",
        "kafka-session-expired",
    ]
    assert [one.begin_ms for one in steps] == sorted(one.begin_ms for one in steps)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_clock_is_moved_in_recordings_of_one_machine(case: LabelledRecording) -> None:
    """Some of the logs state whole seconds only."""
    assert {one["clock_offset_ms"] for one in case.answer.as_json()["components"]} == {0}


@pytest.mark.slow
def test_precision_and_recall_over_the_recordings(report: Callable[[str], None]) -> None:
    right = wrong = missed = 0
    for case in CASES:
        found = set(case.diagnosed())
        right += len(found & case.must)
        wrong += len(found - case.may)
        missed += len(case.must - found)
    precision, recall = right / (right + wrong), right / (right + missed)
    report(f"explain: {len(CASES)} recordings of real runs, precision {precision:.3f}, recall {recall:.3f}")
    assert (precision, recall) == (1, 1)


def test_every_recording_has_labels_and_every_label_is_a_signature() -> None:
    assert {case.name for case in CASES} == {one.name for one in RECORDED.iterdir() if one.is_dir()}
    assert {signature for case in CASES for signature in case.may} <= set(load_library().signatures)
    assert sum(not case.may for case in CASES) >= 5, "healthy runs"


def test_recordings_contain_no_name_of_the_recording_machine() -> None:
    for file in RECORDED.rglob("*.gz"):
        assert not (name := _MACHINE_NAME.search(gzip.decompress(file.read_bytes()))), f"{file.name}: {name}"
