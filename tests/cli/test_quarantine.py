"""`holdfast quarantine`: list, show, release and discard jobs."""

import asyncio
import os
import pty
import subprocess
from collections.abc import Awaitable

import pytest

from holdfast.errors import HoldfastError, Refused
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, DesiredRecord
from holdfast.model.phase import Phase
from holdfast.zk.records.quarantine import discard_job, release_job
from holdfast.zk.session.client import Client, Create
from tests.harness.cluster.command import HOLDFAST
from tests.harness.command_line import error_message, run_command, run_json, run_ok
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real

REASON = "its report cannot be read: report holds 5 bytes that are not a record"


@pytest.fixture
def aside(cluster: PreparedCluster) -> PreparedCluster:
    """Cluster with one job in quarantine, whose unreadable report has been repaired, and one healthy job."""
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.QUARANTINED, REASON)
    cluster.write_quarantine("j1", REASON, part="report", original=b"\x00\x1b[2J!")
    cluster.submit("j2", name="other")
    return cluster


def desired_state(cluster: PreparedCluster) -> Desired:
    data = cluster.get(cluster.paths.job(JobId("j1"), "desired"))
    assert data is not None
    return decode(DesiredRecord, data, where="desired").desired


def is_aside(cluster: PreparedCluster) -> bool:
    return cluster.get(cluster.paths.quarantine_entry(JobId("j1"))) is not None


def test_quarantine_and_quarantine_ls_are_the_same(aside: PreparedCluster) -> None:
    (case,) = run_json(aside, "quarantine")
    assert (case["id"], case["name"], case["reason"], case["part"]) == ("j1", "words", REASON, "report")
    assert run_json(aside, "quarantine", "ls") == [case]
    assert REASON in run_ok(aside, "quarantine")
    assert "other" not in run_ok(aside, "quarantine", "ls")


def test_empty_quarantine_is_reported(cluster: PreparedCluster) -> None:
    assert "no jobs in quarantine" in run_ok(cluster, "quarantine")
    assert run_json(cluster, "quarantine") == []


def test_show_escapes_the_original_bytes(aside: PreparedCluster) -> None:
    printed_text = run_ok(aside, "quarantine", "show", "words")
    assert REASON in printed_text and "\x1b" not in printed_text
    assert aside.paths.job(JobId("j1"), "report") in printed_text
    assert run_ok(aside, "quarantine", "show", "j1", "--original") == "\x00\x1b[2J!"
    assert "is not in quarantine" in error_message(run_command(aside, "quarantine", "show", "other"))


def test_unreadable_quarantine_record_is_listed(aside: PreparedCluster) -> None:
    aside.put(aside.paths.quarantine_entry(JobId("j1")), b"\xff")
    assert "the quarantine record holds" in run_ok(aside, "quarantine")
    assert run_command(aside, "quarantine", "show", "j1").returncode == 0
    run_ok(aside, "quarantine", "discard", "j1", "--yes")


def test_release_writes_desired_state_again(aside: PreparedCluster) -> None:
    assert "is released" in run_ok(aside, "quarantine", "release", "words")
    assert not is_aside(aside)
    assert desired_state(aside) is Desired.RUN
    assert "is not in quarantine" in error_message(run_command(aside, "quarantine", "release", "words"))


@pytest.mark.parametrize("part", ["spec", "desired", "state", "report"])
@pytest.mark.parametrize("data", [b"\x00", b'{"schema":9}'], ids=["garbage", "newer"])
def test_unreadable_job_is_not_released(aside: PreparedCluster, part: str, data: bytes) -> None:
    path = aside.paths.job(JobId("j1"), part)
    aside.put(path, data)
    printed_text = error_message(run_command(aside, "quarantine", "release", "j1"))
    assert path in printed_text
    assert is_aside(aside)
    assert aside.get(path) == data


@pytest.mark.parametrize("part", ["spec", "desired", "state", "report", "attempt"])
def test_incomplete_job_is_not_released(aside: PreparedCluster, part: str) -> None:
    aside.remove(aside.paths.job(JobId("j1"), part))
    assert f"has no {part}" in error_message(run_command(aside, "quarantine", "release", "j1"))
    assert is_aside(aside)


def test_unreadable_desired_state_is_released_only_with_force(aside: PreparedCluster) -> None:
    aside.put(aside.paths.job(JobId("j1"), "desired"), b"\x00")
    assert "'release --force'" in error_message(run_command(aside, "quarantine", "release", "j1"))
    run_ok(aside, "quarantine", "release", "j1", "--force")
    assert desired_state(aside) is Desired.RUN


def test_cancelled_job_is_not_released(aside: PreparedCluster) -> None:
    aside.put(aside.paths.job(JobId("j1"), "desired"), encode(DesiredRecord(Desired.CANCEL)))
    for options in ([], ["--force"]):
        assert "was cancelled: a cancelled job cannot run again" in error_message(
            run_command(aside, "quarantine", "release", "j1", *options)
        )


def test_ended_job_is_not_released(aside: PreparedCluster) -> None:
    aside.write_state("j1", Phase.CANCELLED, "a user cancelled the job")
    assert "ended already" in error_message(run_command(aside, "quarantine", "release", "j1"))


def test_job_without_its_name_is_not_released(aside: PreparedCluster) -> None:
    aside.remove(aside.paths.name("words"))
    assert "does not point to job j1" in error_message(run_command(aside, "quarantine", "release", "j1"))
    aside.submit("j3", name="words")
    assert "does not point to job j1" in error_message(run_command(aside, "quarantine", "release", "j1"))
    assert is_aside(aside)


def test_job_with_impossible_attempt_number_is_not_released(aside: PreparedCluster) -> None:
    aside.write_state("j1", Phase.QUARANTINED, REASON, attempt=3)
    assert "never assigned" in error_message(run_command(aside, "quarantine", "release", "j1"))


def test_discard_deletes_only_job_name_and_request(aside: PreparedCluster) -> None:
    aside.put(f"{aside.paths.job(JobId('j1'))}/spec-2", b"beside")
    aside.put(f"{aside.paths.job(JobId('j1'))}/spec-2/below", b"")
    run_ok(aside, "quarantine", "discard", "words", "--yes")
    assert not is_aside(aside)
    for path in (aside.paths.job(JobId("j1")), aside.paths.name("words"), aside.paths.request("r-j1")):
        assert aside.get(path) is None
    for path in (aside.paths.job(JobId("j2")), aside.paths.name("other"), aside.paths.request("r-j2")):
        assert aside.get(path) is not None
    assert aside.submit("j4", name="words").name == "words"


def test_discard_keeps_a_name_of_another_job(aside: PreparedCluster) -> None:
    aside.remove(aside.paths.name("words"))
    aside.submit("j3", name="words")
    run_ok(aside, "quarantine", "discard", "j1", "--yes")
    assert aside.get(aside.paths.name("words")) is not None
    assert aside.get(aside.paths.job(JobId("j3"))) is not None


@pytest.mark.parametrize("part", ["spec", "desired", "state", "report"])
def test_unreadable_job_can_be_discarded(aside: PreparedCluster, part: str) -> None:
    aside.put(aside.paths.job(JobId("j1"), part), b"\x00")
    run_ok(aside, "quarantine", "discard", "j1", "--yes")
    assert aside.get(aside.paths.job(JobId("j1"))) is None
    assert aside.get(aside.paths.name("words")) is None


def test_running_job_is_not_discarded(aside: PreparedCluster) -> None:
    aside.write_lease("j1")
    assert "is running" in error_message(run_command(aside, "quarantine", "discard", "j1", "--yes"))
    assert is_aside(aside)


def test_job_outside_quarantine_is_not_discarded(aside: PreparedCluster) -> None:
    assert "is not in quarantine" in error_message(run_command(aside, "quarantine", "discard", "other", "--yes"))


def test_quarantine_record_without_job_can_be_discarded(aside: PreparedCluster) -> None:
    aside.write_quarantine("ghost", "it is gone")
    assert "ghost" in run_ok(aside, "quarantine")
    run_ok(aside, "quarantine", "discard", "ghost", "--yes")
    assert "ghost" not in run_ok(aside, "quarantine")


def test_discard_without_terminal_requires_yes(aside: PreparedCluster) -> None:
    assert "use --yes" in error_message(run_command(aside, "quarantine", "discard", "j1"))
    assert is_aside(aside)


@pytest.mark.parametrize(("typed", "left"), [("n\n", True), ("\n", True), ("y\n", False)])
def test_discard_on_a_terminal_asks_first(aside: PreparedCluster, typed: str, left: bool) -> None:
    master, slave = pty.openpty()
    command = [*HOLDFAST, "quarantine", "discard", "j1", "--connect", aside.connect]
    with subprocess.Popen(command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        os.close(slave)
        os.write(master, typed.encode())
        printed_text, _ = process.communicate(timeout=60)
    os.close(master)
    assert "delete its records permanently?" in printed_text
    assert is_aside(aside) is left
    assert process.returncode == (130 if left else 0)


def test_concurrent_release_and_discard_have_one_winner(aside: PreparedCluster) -> None:
    async def both(client: Client) -> list[HoldfastError | None]:
        async def attempt(decision: Awaitable[object]) -> HoldfastError | None:
            try:
                await decision
            except HoldfastError as error:
                return error
            return None

        job = JobId("j1")
        decisions = [release_job(client, aside.paths, job), discard_job(client, aside.paths, job)]
        return list(await asyncio.gather(*map(attempt, decisions)))

    released, discarded = aside.run(both)
    assert (released is None) != (discarded is None)
    assert isinstance(released or discarded, Refused)
    assert not is_aside(aside)
    assert (aside.get(aside.paths.job(JobId("j1"))) is None) is (discarded is None)


def test_lease_that_appears_before_the_commit_prevents_discard(aside: PreparedCluster) -> None:
    """The transaction fails because of a lease that the reads before it did not see."""

    async def race(client: Client) -> None:
        class Late:
            """Client whose transactions find a lease that appeared just before."""

            def __getattr__(self, name: str) -> object:
                return getattr(client, name)

            async def commit(self, operations: object) -> object:
                await client.commit([Create(aside.paths.job(JobId("j1"), "lease"), ephemeral=True)])
                return await client.commit(operations)  # type: ignore[arg-type]  # forwarded unchanged

        with pytest.raises(Refused, match="is running"):
            await discard_job(Late(), aside.paths, JobId("j1"))  # type: ignore[arg-type]  # stands for a client
        assert await client.exists(aside.paths.job(JobId("j1"), "spec")) is not None

    aside.run(race)
