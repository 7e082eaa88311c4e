"""Stop, resume, restart and cancel: what is said to the job, and what is said to the person."""

import asyncio

import pytest

from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Wanted
from holdfast.model.phase import Phase
from holdfast.zk.records.submission import want
from holdfast.zk.session.client import Client
from tests.harness.command_line import answer, refusal, run, started, told
from tests.harness.prepared_cluster import LaidOut

pytestmark = pytest.mark.real


def word(cluster: LaidOut, job: str = "j1") -> tuple[Desired, bool, int]:
    """What is wanted, whether anywhere, and how often somebody has said something."""

    async def ask(client: Client) -> tuple[Desired, bool, int]:
        znode = await client.get(cluster.paths.job(JobId(job), "desired"))
        wanted = decode(Wanted, znode.data, where="desired")
        return wanted.desired, wanted.force, znode.stat.version

    return cluster.run(ask)


@pytest.fixture
def running(cluster: LaidOut) -> LaidOut:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    cluster.lease("j1", attempt=2)
    return cluster


@pytest.fixture
def parked(cluster: LaidOut) -> LaidOut:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.PARKED, "offsets are out of range", attempt=1)
    return cluster


def test_stop_says_where_it_runs_and_what_happens_next(running: LaidOut) -> None:
    said = answer(running, "stop", "words")
    assert said.startswith("words (j1) runs on n1, and stops at its next batch boundary")
    assert word(running) == (Desired.STOP, False, 1)
    assert "was asked to stop before" in answer(running, "stop", "words")
    assert word(running) == (Desired.STOP, False, 1)


def test_a_stopped_job_is_resumed_once(running: LaidOut) -> None:
    answer(running, "stop", "words")
    running.settle("j1", Phase.PARKED, "a person stopped it", attempt=2)
    running.remove(running.paths.job(JobId("j1"), "lease"))
    assert "was PARKED (a person stopped it), and is started again" in answer(running, "resume", "words")
    assert word(running) == (Desired.RUN, False, 2)


def test_a_parked_job_hears_resume_as_a_new_word(parked: LaidOut) -> None:
    assert "was parked (offsets are out of range)" in answer(parked, "resume", "words")
    assert word(parked) == (Desired.RUN, False, 1)


def test_resuming_what_runs_does_not_restart_it(running: LaidOut) -> None:
    assert "is not stopped: RUNNING" in answer(running, "resume", "words")
    assert word(running) == (Desired.RUN, False, 0)


def test_restart_is_a_new_word_each_time(running: LaidOut) -> None:
    assert "attempt 2, which ends at its next batch boundary" in answer(running, "restart", "words")
    assert word(running) == (Desired.RUN, False, 1)
    answer(running, "restart", "--force", "words")
    assert word(running) == (Desired.RUN, True, 2)


def test_restart_resumes_what_was_stopped(parked: LaidOut) -> None:
    answer(parked, "stop", "words")
    assert "was PARKED" in answer(parked, "restart", "words")
    assert word(parked) == (Desired.RUN, False, 2)


def test_cancel_is_the_last_word(running: LaidOut) -> None:
    assert "is ended there at once, for good" in answer(running, "cancel", "words")
    assert word(running)[0] is Desired.CANCEL
    assert "was cancelled before" in answer(running, "cancel", "words")
    for command in ("stop", "restart"):
        assert "was cancelled, and stays so" in refusal(run(running, command, "words"))
    assert word(running) == (Desired.CANCEL, False, 1)


@pytest.mark.parametrize("command", ["stop", "cancel", "restart", "resume"])
@pytest.mark.parametrize("phase", [Phase.FINISHED, Phase.FAILED, Phase.CANCELLED])
def test_a_job_that_ended_is_left_alone(cluster: LaidOut, command: str, phase: Phase) -> None:
    cluster.submit("j1", name="words")
    cluster.settle("j1", phase, "that is why", attempt=1)
    said = refusal(run(cluster, command, "words"))
    assert f"ended already: {phase} " in said and said.endswith("that is why")
    assert word(cluster) == (Desired.RUN, False, 0)


@pytest.mark.parametrize("command", ["stop", "restart", "resume"])
def test_a_job_in_quarantine_points_there(cluster: LaidOut, command: str) -> None:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.QUARANTINED, "its report cannot be read", attempt=1)
    cluster.quarantine("j1", "its report cannot be read", part="report")
    assert "'holdfast quarantine release j1'" in refusal(run(cluster, command, "words"))
    assert word(cluster) == (Desired.RUN, False, 0)


def test_a_job_in_quarantine_can_be_cancelled(cluster: LaidOut) -> None:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.QUARANTINED, "its report cannot be read", attempt=1)
    answer(cluster, "cancel", "words")
    assert word(cluster)[0] is Desired.CANCEL


@pytest.mark.parametrize("command", ["stop", "cancel", "restart"])
def test_what_is_wanted_but_cannot_be_read_is_refused(running: LaidOut, command: str) -> None:
    running.put(running.paths.job(JobId("j1"), "desired"), b"\x00")
    assert "desired holds" in refusal(run(running, command, "words"))


def test_without_a_leader_it_is_said_that_nothing_happens_yet(running: LaidOut) -> None:
    assert "no node leads" in run(running, "stop", "words").stderr

    async def led() -> None:
        async with running.led():
            assert (await asyncio.to_thread(run, running, "restart", "words")).stderr == ""

    asyncio.run(led())


@pytest.mark.parametrize(
    ("command", "phase", "attempt", "code"),
    [
        ("stop", Phase.PARKED, 2, 0),
        ("stop", Phase.FINISHED, 2, 0),
        ("stop", Phase.QUARANTINED, 2, 1),
        ("cancel", Phase.CANCELLED, 2, 0),
        ("restart", Phase.FAILED, 2, 1),
    ],
)
def test_waiting_ends_when_it_has_taken_effect(running: LaidOut, command: str, phase: Phase, attempt: int, code: int) -> None:
    with started(running, command, "words", "--wait") as process:
        told(process, "attempt 2 runs on n1")
        running.remove(running.paths.job(JobId("j1"), "lease"))
        running.settle("j1", phase, "that came of it", attempt=attempt)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert "that came of it" in stderr


def test_waiting_for_a_restart_waits_for_another_attempt(running: LaidOut) -> None:
    with started(running, "restart", "words", "--wait") as process:
        told(process, "attempt 2 runs on n1")
        running.lease("j1", attempt=3, node="n2")
        running.settle("j1", Phase.RUNNING, "attempt 3 runs on n2", attempt=3, node="n2")
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "attempt 3 runs on n2" in stderr


def test_two_words_at_once_are_both_said(running: LaidOut) -> None:
    async def both(client: Client) -> None:
        await asyncio.gather(
            *(want(client, running.paths, JobId("j1"), Desired.RUN, again=True) for _ in range(2)),
            asyncio.to_thread(run, running, "restart", "words"),
        )

    running.run(both)
    assert word(running) == (Desired.RUN, False, 3)
