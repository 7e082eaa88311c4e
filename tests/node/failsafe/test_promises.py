"""Failsafe promises of a node: granting, keeping and loading them."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Refused
from holdfast.model.identifiers import Attempt, JobId
from holdfast.node.failsafe.journal import PromiseJournal
from holdfast.node.failsafe.promises import JOBS_MAX, PERIOD_S_MAX, FailsafePromises

JOB = JobId("j1")
JOURNAL = "promises.journal"


@dataclass
class Clock:
    now: float = 1000.0

    def boottime(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


def load_promises(path: Path, clock: Clock, *, boot: str = "b1", started: int = 0) -> FailsafePromises:
    return FailsafePromises(
        PromiseJournal(path / JOURNAL),
        clock,
        boot=boot,
        period_s=10.0,
        newest_started=lambda _: Attempt(started),
        legacy_file=path / "promises.json",
    )


def grant(promises: FailsafePromises, attempt: int, period_s: float, job: JobId = JOB) -> None:
    asyncio.run(promises.grant(job, Attempt(attempt), period_s))


def test_promise_delays_later_attempts_only(tmp_path: Path) -> None:
    clock = Clock()
    promises = load_promises(tmp_path, clock)
    assert promises.remaining_s(JOB, Attempt(2)) == 0
    grant(promises, 1, 10.0)
    clock.now += 4
    assert promises.remaining_s(JOB, Attempt(2)) == 6
    assert promises.remaining_s(JOB, Attempt(1)) == 0
    assert promises.remaining_s(JobId("j2"), Attempt(2)) == 0
    clock.now += 6
    assert promises.remaining_s(JOB, Attempt(2)) == 0


def test_refused_promise_is_not_renewed_but_lasts_to_its_end(tmp_path: Path) -> None:
    clock = Clock()
    promises = load_promises(tmp_path, clock)
    grant(promises, 1, 10.0)
    promises.refuse(JOB, Attempt(1))
    clock.now += 4
    with pytest.raises(Conflict, match="ordered the end of attempt 1"):
        grant(promises, 1, 10.0)
    refused = asyncio.run(promises.grant_all({JOB: Attempt(1), JobId("j2"): Attempt(1)}, 10.0))
    assert list(refused) == [JOB]
    assert promises.remaining_s(JOB, Attempt(2)) == 6
    grant(promises, 2, 10.0)
    promises.allow_except([])
    grant(promises, 1, 10.0)


def test_promise_survives_a_restart_of_the_agent(tmp_path: Path) -> None:
    clock = Clock()
    promises = load_promises(tmp_path, clock)
    grant(promises, 1, 10.0)
    grant(promises, 1, 10.0, JobId("j2"))
    restarted = load_promises(tmp_path, clock)
    assert restarted.remaining_s(JOB, Attempt(2)) == 10
    assert restarted.remaining_s(JobId("j2"), Attempt(2)) == 10


def test_promise_that_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    promises = load_promises(tmp_path / "missing", Clock())
    with pytest.raises(Refused, match="cannot save the promise"):
        grant(promises, 1, 10.0)
    assert promises.remaining_s(JOB, Attempt(2)) == 0


def test_promise_that_cannot_be_saved_leaves_an_earlier_one_in_force(tmp_path: Path) -> None:
    directory, clock = tmp_path / "d", Clock()
    directory.mkdir()
    promises = load_promises(directory, clock)
    grant(promises, 1, 10.0)
    directory.rename(tmp_path / "moved")
    clock.now += 5
    with pytest.raises(Refused, match="cannot save the promise"):
        grant(promises, 1, 10.0)
    assert promises.remaining_s(JOB, Attempt(2)) == 5


def test_later_promise_never_shortens_an_earlier_one(tmp_path: Path) -> None:
    clock = Clock()
    promises = load_promises(tmp_path, clock)
    grant(promises, 2, 10.0)
    grant(promises, 1, 1.0)
    assert promises.remaining_s(JOB, Attempt(3)) == 10
    assert load_promises(tmp_path, clock).remaining_s(JOB, Attempt(3)) == 10


def test_after_a_reboot_no_attempt_starts_for_one_full_period(tmp_path: Path) -> None:
    clock = Clock()
    grant(load_promises(tmp_path, clock), 1, 30.0)
    clock.now = 5.0
    promises = load_promises(tmp_path, clock, boot="b2")
    assert promises.remaining_s(JOB, Attempt(2)) == 30
    assert promises.remaining_s(JobId("other"), Attempt(1)) == 30
    clock.now += 30
    assert promises.remaining_s(JOB, Attempt(2)) == 0


def test_wait_after_a_reboot_survives_promises_and_restarts(tmp_path: Path) -> None:
    clock = Clock()
    grant(load_promises(tmp_path, clock), 1, 30.0)
    clock.now = 5.0
    grant(load_promises(tmp_path, clock, boot="b2"), 7, 10.0, JobId("other"))
    clock.now += 10
    assert load_promises(tmp_path, clock, boot="b2").remaining_s(JOB, Attempt(2)) == 20
    clock.now = 1.0
    assert load_promises(tmp_path, clock, boot="b3").remaining_s(JOB, Attempt(2)) == 30, "the second reboot came too early"


def test_node_without_promises_starts_attempts_at_once(tmp_path: Path) -> None:
    assert load_promises(tmp_path, Clock()).remaining_s(JOB, Attempt(1)) == 0


@pytest.mark.parametrize("keep", [0, 1, 50, -1, -20])
def test_truncated_journal_delays_all_attempts_by_the_longest_period(tmp_path: Path, keep: int) -> None:
    clock = Clock()
    promises = load_promises(tmp_path, clock)
    grant(promises, 1, 10.0)
    grant(promises, 1, 10.0, JobId("j2"))
    content = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(content[:keep])
    promises = load_promises(tmp_path, clock)
    assert promises.remaining_s(JobId("other"), Attempt(2)) == PERIOD_S_MAX
    grant(promises, 1, 10.0)
    assert load_promises(tmp_path, clock).remaining_s(JobId("other"), Attempt(2)) == PERIOD_S_MAX, "the next agent waits too"


@pytest.mark.parametrize("position", [0, 9, 20, 60, -3])
def test_changed_byte_in_the_journal_delays_all_attempts(tmp_path: Path, position: int) -> None:
    promises = load_promises(tmp_path, Clock())
    grant(promises, 1, 10.0)
    grant(promises, 1, 10.0)
    content = bytearray((tmp_path / JOURNAL).read_bytes())
    content[position] ^= 1
    (tmp_path / JOURNAL).write_bytes(content)
    assert load_promises(tmp_path, Clock()).remaining_s(JOB, Attempt(2)) == PERIOD_S_MAX


def test_promises_of_the_previous_release_are_read_once(tmp_path: Path) -> None:
    clock = Clock()
    fields = {"boot": "b1", "promises": {"j1": {"attempt": 1, "until": 1008.0, "period_s": 10.0}}}
    (tmp_path / "promises.json").write_text(json.dumps(fields))
    promises = load_promises(tmp_path, clock)
    assert promises.remaining_s(JOB, Attempt(2)) == 8
    assert (tmp_path / "promises.json").exists(), "the journal does not contain its promises yet"
    grant(promises, 1, 10.0, JobId("j2"))
    assert not (tmp_path / "promises.json").exists()
    assert load_promises(tmp_path, clock).remaining_s(JOB, Attempt(2)) == 8


@pytest.mark.parametrize("content", [b"", b"noise", b"[]", b"{}", json.dumps({"boot": "b1", "promises": {"j1": 5}}).encode()])
def test_unreadable_file_of_the_previous_release_delays_all_attempts(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "promises.json").write_bytes(content)
    assert load_promises(tmp_path, Clock()).remaining_s(JOB, Attempt(2)) == PERIOD_S_MAX


def test_promise_is_refused_after_a_later_attempt_was_started(tmp_path: Path) -> None:
    promises = load_promises(tmp_path, Clock(), started=2)
    with pytest.raises(Conflict, match="attempt 2 was already started on this node"):
        grant(promises, 1, 10.0)
    grant(promises, 2, 10.0)


def test_batch_refuses_single_attempts_with_a_reason(tmp_path: Path) -> None:
    promises = load_promises(tmp_path, Clock(), started=2)
    refused = asyncio.run(promises.grant_all({JOB: Attempt(1), JobId("j2"): Attempt(2)}, 10.0))
    assert refused == {JOB: "attempt 2 was already started on this node"}
    assert promises.remaining_s(JobId("j2"), Attempt(3)) == 10
    assert promises.remaining_s(JOB, Attempt(3)) == 0


def test_number_of_promises_is_bounded(tmp_path: Path) -> None:
    clock = Clock()
    promises = load_promises(tmp_path, clock)
    attempts = {JobId(f"j{n}"): Attempt(1) for n in range(JOBS_MAX)}
    for count in (JOBS_MAX - 1, JOBS_MAX):  # renewals count once
        assert asyncio.run(promises.grant_all(dict(list(attempts.items())[:count]), 10.0)) == {}
    refused = asyncio.run(promises.grant_all({JobId("j0"): Attempt(1), JobId("more"): Attempt(1)}, 10.0))
    assert list(refused) == ["more"]
    clock.now += 11
    assert asyncio.run(promises.grant_all({JobId("more"): Attempt(1)}, 10.0)) == {}


@pytest.mark.parametrize("period_s", [0.0, -1.0, float("nan"), float("inf"), PERIOD_S_MAX + 1])
def test_invalid_period_is_refused(tmp_path: Path, period_s: float) -> None:
    promises = load_promises(tmp_path, Clock())
    with pytest.raises(Refused):
        grant(promises, 1, period_s)
    assert list(asyncio.run(promises.grant_all({JOB: Attempt(1)}, period_s))) == [JOB]
