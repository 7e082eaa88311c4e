"""A node's promises not to start a job's next attempt."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Refused
from holdfast.model.identifiers import Attempt, JobId
from holdfast.node.failsafe import PERIOD_S_MAX, Promises

JOB = JobId("j1")


@dataclass
class Clock:
    now: float = 1000.0

    def boottime(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


def promises(path: Path, clock: Clock, *, boot: str = "b1", started: int = 0) -> Promises:
    return Promises(path / "promises.json", clock, boot=boot, period_s=10.0, started=lambda _: Attempt(started))


def test_a_later_attempt_waits_and_the_same_one_does_not(tmp_path: Path) -> None:
    clock = Clock()
    kept = promises(tmp_path, clock)
    assert kept.left_s(JOB, Attempt(2)) == 0
    kept.promise(JOB, Attempt(1), 10.0)
    clock.now += 4
    assert kept.left_s(JOB, Attempt(2)) == 6
    assert kept.left_s(JOB, Attempt(1)) == 0
    assert kept.left_s(JobId("j2"), Attempt(2)) == 0
    clock.now += 6
    assert kept.left_s(JOB, Attempt(2)) == 0


def test_a_promise_is_on_disk_before_it_is_given(tmp_path: Path) -> None:
    clock = Clock()
    promises(tmp_path, clock).promise(JOB, Attempt(1), 10.0)
    assert promises(tmp_path, clock).left_s(JOB, Attempt(2)) == 10


def test_what_cannot_be_written_down_is_not_promised(tmp_path: Path) -> None:
    kept = promises(tmp_path / "gone", Clock())
    with pytest.raises(Refused, match="cannot be written down"):
        kept.promise(JOB, Attempt(1), 10.0)
    assert kept.left_s(JOB, Attempt(2)) == 0


def test_a_later_promise_never_shortens_an_earlier_one(tmp_path: Path) -> None:
    kept = promises(tmp_path, Clock())
    kept.promise(JOB, Attempt(2), 10.0)
    kept.promise(JOB, Attempt(1), 1.0)
    assert kept.left_s(JOB, Attempt(3)) == 10


def test_after_a_reboot_nothing_starts_for_one_full_period(tmp_path: Path) -> None:
    clock = Clock()
    promises(tmp_path, clock).promise(JOB, Attempt(1), 30.0)
    clock.now = 5.0
    kept = promises(tmp_path, clock, boot="b2")
    assert kept.left_s(JOB, Attempt(2)) == 30
    assert kept.left_s(JobId("other"), Attempt(1)) == 30
    clock.now += 30
    assert kept.left_s(JOB, Attempt(2)) == 0


def test_a_node_that_never_promised_anything_waits_for_nothing(tmp_path: Path) -> None:
    assert promises(tmp_path, Clock()).left_s(JOB, Attempt(1)) == 0


@pytest.mark.parametrize("content", [b"", b"noise", b"[]", b"{}", json.dumps({"boot": "b1", "promises": {"j1": 5}}).encode()])
def test_a_file_that_cannot_be_read_is_feared(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "promises.json").write_bytes(content)
    assert promises(tmp_path, Clock()).left_s(JOB, Attempt(2)) == PERIOD_S_MAX


def test_who_has_started_a_later_attempt_does_not_promise(tmp_path: Path) -> None:
    kept = promises(tmp_path, Clock(), started=2)
    with pytest.raises(Conflict, match="attempt 2 was started here already"):
        kept.promise(JOB, Attempt(1), 10.0)
    kept.promise(JOB, Attempt(2), 10.0)


@pytest.mark.parametrize("period_s", [0.0, -1.0, float("nan"), float("inf"), PERIOD_S_MAX + 1])
def test_nobody_is_promised_nothing_or_for_ever(tmp_path: Path, period_s: float) -> None:
    with pytest.raises(Refused):
        promises(tmp_path, Clock()).promise(JOB, Attempt(1), period_s)
