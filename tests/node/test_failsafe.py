"""Failsafe promises of a node."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Refused
from holdfast.model.identifiers import Attempt, JobId
from holdfast.node.failsafe import PERIOD_S_MAX, FailsafePromises

JOB = JobId("j1")


@dataclass
class Clock:
    now: float = 1000.0

    def boottime(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


def load_promises(path: Path, clock: Clock, *, boot: str = "b1", started: int = 0) -> FailsafePromises:
    return FailsafePromises(path / "promises.json", clock, boot=boot, period_s=10.0, newest_started=lambda _: Attempt(started))


def test_promise_delays_later_attempts_only(tmp_path: Path) -> None:
    clock = Clock()
    promises = load_promises(tmp_path, clock)
    assert promises.remaining_s(JOB, Attempt(2)) == 0
    promises.grant(JOB, Attempt(1), 10.0)
    clock.now += 4
    assert promises.remaining_s(JOB, Attempt(2)) == 6
    assert promises.remaining_s(JOB, Attempt(1)) == 0
    assert promises.remaining_s(JobId("j2"), Attempt(2)) == 0
    clock.now += 6
    assert promises.remaining_s(JOB, Attempt(2)) == 0


def test_promise_survives_a_restart_of_the_agent(tmp_path: Path) -> None:
    clock = Clock()
    load_promises(tmp_path, clock).grant(JOB, Attempt(1), 10.0)
    assert load_promises(tmp_path, clock).remaining_s(JOB, Attempt(2)) == 10


def test_promise_that_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    promises = load_promises(tmp_path / "missing", Clock())
    with pytest.raises(Refused, match="cannot save the promise"):
        promises.grant(JOB, Attempt(1), 10.0)
    assert promises.remaining_s(JOB, Attempt(2)) == 0


def test_later_promise_never_shortens_an_earlier_one(tmp_path: Path) -> None:
    promises = load_promises(tmp_path, Clock())
    promises.grant(JOB, Attempt(2), 10.0)
    promises.grant(JOB, Attempt(1), 1.0)
    assert promises.remaining_s(JOB, Attempt(3)) == 10


def test_after_a_reboot_no_attempt_starts_for_one_full_period(tmp_path: Path) -> None:
    clock = Clock()
    load_promises(tmp_path, clock).grant(JOB, Attempt(1), 30.0)
    clock.now = 5.0
    promises = load_promises(tmp_path, clock, boot="b2")
    assert promises.remaining_s(JOB, Attempt(2)) == 30
    assert promises.remaining_s(JobId("other"), Attempt(1)) == 30
    clock.now += 30
    assert promises.remaining_s(JOB, Attempt(2)) == 0


def test_node_without_promises_starts_attempts_at_once(tmp_path: Path) -> None:
    assert load_promises(tmp_path, Clock()).remaining_s(JOB, Attempt(1)) == 0


@pytest.mark.parametrize("content", [b"", b"noise", b"[]", b"{}", json.dumps({"boot": "b1", "promises": {"j1": 5}}).encode()])
def test_unreadable_file_delays_all_attempts_by_the_longest_period(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "promises.json").write_bytes(content)
    assert load_promises(tmp_path, Clock()).remaining_s(JOB, Attempt(2)) == PERIOD_S_MAX


def test_promise_is_refused_after_a_later_attempt_was_started(tmp_path: Path) -> None:
    promises = load_promises(tmp_path, Clock(), started=2)
    with pytest.raises(Conflict, match="attempt 2 was already started on this node"):
        promises.grant(JOB, Attempt(1), 10.0)
    promises.grant(JOB, Attempt(2), 10.0)


@pytest.mark.parametrize("period_s", [0.0, -1.0, float("nan"), float("inf"), PERIOD_S_MAX + 1])
def test_invalid_period_is_refused(tmp_path: Path, period_s: float) -> None:
    with pytest.raises(Refused):
        load_promises(tmp_path, Clock()).grant(JOB, Attempt(1), period_s)
