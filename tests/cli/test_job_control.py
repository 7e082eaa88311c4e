"""`holdfast stop`, `resume`, `restart` and `cancel`: the records they write and the messages they print."""

import asyncio
import json

import pytest

from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, DesiredRecord, Ending, Outcome, Report
from holdfast.model.phase import Phase
from holdfast.zk.records.submission import set_desired
from holdfast.zk.session.client import Client
from tests.harness.command_line import error_message, run_command, run_json, run_ok, start_command, wait_for_stderr
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real


def word(cluster: PreparedCluster, job: str = "j1") -> tuple[Desired, bool, int]:
    """Return the desired state, the force flag and the number of writes."""

    async def ask(client: Client) -> tuple[Desired, bool, int]:
        znode = await client.get(cluster.paths.job(JobId(job), "desired"))
        wanted = decode(DesiredRecord, znode.data, where="desired")
        return wanted.desired, wanted.force, znode.stat.version

    return cluster.run(ask)


@pytest.fixture
def running(cluster: PreparedCluster) -> PreparedCluster:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    cluster.write_lease("j1", attempt=2)
    return cluster


@pytest.fixture
def parked_job(cluster: PreparedCluster) -> PreparedCluster:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.PARKED, "offsets are out of range", attempt=1)
    return cluster


def test_stop_prints_node_and_effect(running: PreparedCluster) -> None:
    printed_text = run_ok(running, "stop", "words")
    assert printed_text.startswith(
        "words (j1) is running on n1 and stops after its current batch; 'holdfast resume words' continues it"
    )
    assert word(running) == (Desired.STOP, False, 1)
    assert "has already been asked to stop" in run_ok(running, "stop", "words")
    assert word(running) == (Desired.STOP, False, 1)


def test_stopped_job_is_resumed_once(running: PreparedCluster) -> None:
    run_ok(running, "stop", "words")
    running.write_state("j1", Phase.PARKED, "a user stopped the job", attempt=2)
    running.remove(running.paths.job(JobId("j1"), "lease"))
    assert "is not running (PARKED: a user stopped the job) and starts as soon as" in run_ok(running, "resume", "words")
    assert word(running) == (Desired.RUN, False, 2)


def test_resume_of_parked_job_writes_desired_state_again(parked_job: PreparedCluster) -> None:
    assert "is not running (PARKED: offsets are out of range)" in run_ok(parked_job, "resume", "words")
    assert word(parked_job) == (Desired.RUN, False, 1)


def test_resume_of_running_job_does_not_restart_it(running: PreparedCluster) -> None:
    assert "is not stopped (RUNNING" in run_ok(running, "resume", "words")
    assert word(running) == (Desired.RUN, False, 0)


def test_each_restart_writes_desired_state_again(running: PreparedCluster) -> None:
    assert "attempt 2 stops after its current batch, then the next attempt starts" in run_ok(running, "restart", "words")
    assert word(running) == (Desired.RUN, False, 1)
    run_ok(running, "restart", "--force", "words")
    assert word(running) == (Desired.RUN, True, 2)


def test_restart_resumes_stopped_job(parked_job: PreparedCluster) -> None:
    run_ok(parked_job, "stop", "words")
    assert "is not running (PARKED" in run_ok(parked_job, "restart", "words")
    assert word(parked_job) == (Desired.RUN, False, 2)


def test_nothing_follows_a_cancel(running: PreparedCluster) -> None:
    assert "its driver is killed at once, and the job never runs again" in run_ok(running, "cancel", "words")
    assert word(running)[0] is Desired.CANCEL
    assert "has already been cancelled" in run_ok(running, "cancel", "words")
    for command in ("stop", "restart"):
        assert "was cancelled: a cancelled job cannot run again" in error_message(run_command(running, command, "words"))
    assert word(running) == (Desired.CANCEL, False, 1)


@pytest.mark.parametrize("command", ["stop", "cancel", "restart", "resume"])
def test_json_is_the_job_as_listed(running: PreparedCluster, command: str) -> None:
    job = run_json(running, command, "words")
    assert job == run_json(running, "ls")[0]
    assert job["desired"] == {"stop": "stop", "cancel": "cancel"}.get(command, "run")


def test_json_with_failed_wait_prints_the_job(running: PreparedCluster) -> None:
    with start_command(running, "restart", "words", "--wait", "--json") as process:
        wait_for_stderr(process, "attempt 2 runs on n1")
        running.remove(running.paths.job(JobId("j1"), "lease"))
        running.write_state("j1", Phase.FAILED, "that came of it", attempt=2)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    assert json.loads(stdout)["phase"] == "FAILED"


@pytest.mark.parametrize("command", ["stop", "cancel", "restart", "resume"])
@pytest.mark.parametrize("phase", [Phase.FINISHED, Phase.FAILED, Phase.CANCELLED])
def test_control_of_ended_job_is_refused(cluster: PreparedCluster, command: str, phase: Phase) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", phase, "that is why", attempt=1)
    printed_text = error_message(run_command(cluster, command, "words"))
    assert f"has already ended: {phase} " in printed_text and printed_text.endswith("that is why")
    assert word(cluster) == (Desired.RUN, False, 0)


@pytest.mark.parametrize("command", ["stop", "restart", "resume"])
def test_control_of_quarantined_job_names_the_quarantine_commands(cluster: PreparedCluster, command: str) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.QUARANTINED, "its report cannot be read", attempt=1)
    cluster.write_quarantine("j1", "its report cannot be read", part="report")
    assert "'holdfast quarantine release j1'" in error_message(run_command(cluster, command, "words"))
    assert word(cluster) == (Desired.RUN, False, 0)


def test_quarantined_job_can_be_cancelled(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.QUARANTINED, "its report cannot be read", attempt=1)
    run_ok(cluster, "cancel", "words")
    assert word(cluster)[0] is Desired.CANCEL


@pytest.mark.parametrize("command", ["stop", "cancel", "restart"])
def test_unreadable_desired_state_is_refused(running: PreparedCluster, command: str) -> None:
    running.put(running.paths.job(JobId("j1"), "desired"), b"\x00")
    assert "desired holds" in error_message(run_command(running, command, "words"))


def test_missing_leader_is_reported(running: PreparedCluster) -> None:
    assert "no node leads" in run_command(running, "stop", "words").stderr

    async def restart_with_leader() -> None:
        async with running.elect_leader():
            assert (await asyncio.to_thread(run_command, running, "restart", "words")).stderr == ""

    asyncio.run(restart_with_leader())


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
def test_wait_ends_when_the_command_has_taken_effect(
    running: PreparedCluster, command: str, phase: Phase, attempt: int, code: int
) -> None:
    with start_command(running, command, "words", "--wait") as process:
        wait_for_stderr(process, "attempt 2 runs on n1")
        running.remove(running.paths.job(JobId("j1"), "lease"))
        running.write_state("j1", phase, "that came of it", attempt=attempt)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert "that came of it" in stderr


def test_wait_after_restart_waits_for_the_next_attempt(running: PreparedCluster) -> None:
    with start_command(running, "restart", "words", "--wait") as process:
        wait_for_stderr(process, "attempt 2 runs on n1")
        running.write_lease("j1", attempt=3, node="n2")
        running.write_state("j1", Phase.RUNNING, "attempt 3 runs on n2", attempt=3, node="n2")
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "attempt 3 runs on n2" in stderr


def test_concurrent_commands_are_both_written(running: PreparedCluster) -> None:
    async def both(client: Client) -> None:
        await asyncio.gather(
            *(set_desired(client, running.paths, JobId("j1"), Desired.RUN, repeat=True) for _ in range(2)),
            asyncio.to_thread(run_command, running, "restart", "words"),
        )

    running.run(both)
    assert word(running) == (Desired.RUN, False, 3)


def test_trust_of_a_checkpoint_needs_a_reason_and_damage(parked_job: PreparedCluster) -> None:
    for options in (["--trust-checkpoint"], ["--reason", "looked"], ["--trust-checkpoint", "--reason", " "]):
        answer = run_command(parked_job, "resume", "words", *options)
        assert answer.returncode == 2
        assert "--trust-checkpoint and --reason belong together" in answer.stderr
    answer = run_command(parked_job, "resume", "words", "--trust-checkpoint", "--reason", "looked")
    assert "is not parked because of a damaged checkpoint (PARKED: offsets are out of range)" in error_message(answer)
    assert word(parked_job) == (Desired.RUN, False, 0)


def test_trusted_checkpoint_is_recorded_and_shown(parked_job: PreparedCluster) -> None:
    outcome = Outcome(Ending.CHECKPOINT_DAMAGED, "commits/2 ends after its version", ("a1",))
    report = Report(Attempt(1), NodeId("n1"), 1000.0, outcome=outcome, dead=True)
    parked_job.put(parked_job.paths.job(JobId("j1"), "report"), encode(report))
    printed_text = run_ok(parked_job, "resume", "words", "--trust-checkpoint", "--reason", "the backup cut it off")
    assert "is parked because of 1 finding, which you trust, and starts again" in printed_text
    assert word(parked_job) == (Desired.RUN, False, 1)
    assert "1 finding of the checkpoint, by " in run_ok(parked_job, "show", "words")
    assert run_json(parked_job, "show", "words")["checkpoint_trust"]["reason"] == "the backup cut it off"
