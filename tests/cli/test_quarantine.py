"""Quarantine: what is in it, and the two ways out."""

import asyncio
import os
import pty
import subprocess

import pytest

from holdfast.errors import HoldfastError, Refused
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Wanted
from holdfast.model.phase import Phase
from holdfast.zk.records.quarantine import discard, release
from holdfast.zk.session.client import Client, Create
from tests.harness.cluster.command import HOLDFAST
from tests.harness.command_line import answer, asked, refusal, run
from tests.harness.prepared_cluster import LaidOut

pytestmark = pytest.mark.real

REASON = "its report cannot be read: report holds 5 bytes that are not a record"


@pytest.fixture
def aside(cluster: LaidOut) -> LaidOut:
    """One job in quarantine, whose report could not be read and has been mended; and one that has nothing to do with it."""
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.QUARANTINED, REASON)
    cluster.quarantine("j1", REASON, part="report", original=b"\x00\x1b[2J!")
    cluster.submit("j2", name="other")
    return cluster


def wanted(cluster: LaidOut) -> Desired:
    data = cluster.get(cluster.paths.job(JobId("j1"), "desired"))
    assert data is not None
    return decode(Wanted, data, where="desired").desired


def is_aside(cluster: LaidOut) -> bool:
    return cluster.get(cluster.paths.quarantined(JobId("j1"))) is not None


def test_bare_and_ls_list_the_same(aside: LaidOut) -> None:
    (case,) = asked(aside, "quarantine")
    assert (case["id"], case["name"], case["reason"], case["part"]) == ("j1", "words", REASON, "report")
    assert asked(aside, "quarantine", "ls") == [case]
    assert REASON in answer(aside, "quarantine")
    assert "other" not in answer(aside, "quarantine", "ls")


def test_an_empty_quarantine_says_so(cluster: LaidOut) -> None:
    assert "nothing is in quarantine" in answer(cluster, "quarantine")
    assert asked(cluster, "quarantine") == []


def test_show_has_the_original_bytes_and_harms_no_terminal(aside: LaidOut) -> None:
    said = answer(aside, "quarantine", "show", "words")
    assert REASON in said and "\x1b" not in said
    assert aside.paths.job(JobId("j1"), "report") in said
    assert answer(aside, "quarantine", "show", "j1", "--original") == "\x00\x1b[2J!"
    assert "is not in quarantine" in refusal(run(aside, "quarantine", "show", "other"))


def test_a_record_that_cannot_be_read_itself_is_listed(aside: LaidOut) -> None:
    aside.put(aside.paths.quarantined(JobId("j1")), b"\xff")
    assert "its record holds" in answer(aside, "quarantine")
    assert run(aside, "quarantine", "show", "j1").returncode == 0
    answer(aside, "quarantine", "discard", "j1", "--yes")


def test_release_lets_it_run_again_as_a_new_word(aside: LaidOut) -> None:
    assert "is released" in answer(aside, "quarantine", "release", "words")
    assert not is_aside(aside)
    assert wanted(aside) is Desired.RUN
    assert "is not in quarantine" in refusal(run(aside, "quarantine", "release", "words"))


@pytest.mark.parametrize("part", ["spec", "desired", "state", "report"])
@pytest.mark.parametrize("data", [b"\x00", b'{"schema":9}'], ids=["garbage", "newer"])
def test_what_still_cannot_be_read_is_not_released(aside: LaidOut, part: str, data: bytes) -> None:
    path = aside.paths.job(JobId("j1"), part)
    aside.put(path, data)
    said = refusal(run(aside, "quarantine", "release", "j1"))
    assert path in said
    assert is_aside(aside)
    assert aside.get(path) == data


@pytest.mark.parametrize("part", ["spec", "desired", "state", "report", "attempt"])
def test_what_is_not_whole_is_not_released(aside: LaidOut, part: str) -> None:
    aside.remove(aside.paths.job(JobId("j1"), part))
    assert f"has no {part}" in refusal(run(aside, "quarantine", "release", "j1"))
    assert is_aside(aside)


def test_a_cancel_that_cannot_be_read_is_only_overruled_by_force(aside: LaidOut) -> None:
    aside.put(aside.paths.job(JobId("j1"), "desired"), b"\x00")
    assert "'release --force'" in refusal(run(aside, "quarantine", "release", "j1"))
    answer(aside, "quarantine", "release", "j1", "--force")
    assert wanted(aside) is Desired.RUN


def test_what_was_cancelled_is_not_released(aside: LaidOut) -> None:
    aside.put(aside.paths.job(JobId("j1"), "desired"), encode(Wanted(Desired.CANCEL)))
    for options in ([], ["--force"]):
        assert "was cancelled, and stays so" in refusal(run(aside, "quarantine", "release", "j1", *options))


def test_what_ended_is_not_released(aside: LaidOut) -> None:
    aside.settle("j1", Phase.CANCELLED, "a person cancelled it")
    assert "ended already" in refusal(run(aside, "quarantine", "release", "j1"))


def test_what_lost_its_name_is_not_released(aside: LaidOut) -> None:
    aside.remove(aside.paths.name("words"))
    assert "does not point to job j1" in refusal(run(aside, "quarantine", "release", "j1"))
    aside.submit("j3", name="words")
    assert "does not point to job j1" in refusal(run(aside, "quarantine", "release", "j1"))
    assert is_aside(aside)


def test_what_tells_of_attempts_that_never_were_is_not_released(aside: LaidOut) -> None:
    aside.settle("j1", Phase.QUARANTINED, REASON, attempt=3)
    assert "never given out" in refusal(run(aside, "quarantine", "release", "j1"))


def test_discard_deletes_the_job_its_name_and_its_request_and_nothing_else(aside: LaidOut) -> None:
    aside.put(f"{aside.paths.job(JobId('j1'))}/spec-2", b"beside")
    aside.put(f"{aside.paths.job(JobId('j1'))}/spec-2/below", b"")
    answer(aside, "quarantine", "discard", "words", "--yes")
    assert not is_aside(aside)
    for path in (aside.paths.job(JobId("j1")), aside.paths.name("words"), aside.paths.request("r-j1")):
        assert aside.get(path) is None
    for path in (aside.paths.job(JobId("j2")), aside.paths.name("other"), aside.paths.request("r-j2")):
        assert aside.get(path) is not None
    assert aside.submit("j4", name="words").name == "words"


def test_discard_leaves_a_name_that_belongs_to_another_job(aside: LaidOut) -> None:
    aside.remove(aside.paths.name("words"))
    aside.submit("j3", name="words")
    answer(aside, "quarantine", "discard", "j1", "--yes")
    assert aside.get(aside.paths.name("words")) is not None
    assert aside.get(aside.paths.job(JobId("j3"))) is not None


@pytest.mark.parametrize("part", ["spec", "desired", "state", "report"])
def test_what_cannot_be_read_can_be_discarded(aside: LaidOut, part: str) -> None:
    aside.put(aside.paths.job(JobId("j1"), part), b"\x00")
    answer(aside, "quarantine", "discard", "j1", "--yes")
    assert aside.get(aside.paths.job(JobId("j1"))) is None
    assert aside.get(aside.paths.name("words")) is None


def test_what_is_alive_is_not_discarded(aside: LaidOut) -> None:
    aside.lease("j1")
    assert "is alive" in refusal(run(aside, "quarantine", "discard", "j1", "--yes"))
    assert is_aside(aside)


def test_what_is_not_in_quarantine_is_not_discarded(aside: LaidOut) -> None:
    assert "is not in quarantine" in refusal(run(aside, "quarantine", "discard", "other", "--yes"))


def test_a_record_without_a_job_can_be_discarded(aside: LaidOut) -> None:
    aside.quarantine("ghost", "it is gone")
    assert "ghost" in answer(aside, "quarantine")
    answer(aside, "quarantine", "discard", "ghost", "--yes")
    assert "ghost" not in answer(aside, "quarantine")


def test_without_a_terminal_discarding_wants_yes(aside: LaidOut) -> None:
    assert "say --yes" in refusal(run(aside, "quarantine", "discard", "j1"))
    assert is_aside(aside)


@pytest.mark.parametrize(("typed", "left"), [("n\n", True), ("\n", True), ("y\n", False)])
def test_on_a_terminal_discarding_asks_first(aside: LaidOut, typed: str, left: bool) -> None:
    master, slave = pty.openpty()
    command = [*HOLDFAST, "quarantine", "discard", "j1", "--connect", aside.connect]
    with subprocess.Popen(command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        os.close(slave)
        os.write(master, typed.encode())
        said, _ = process.communicate(timeout=60)
    os.close(master)
    assert "Delete its record for good?" in said
    assert is_aside(aside) is left
    assert process.returncode == (130 if left else 0)


def test_two_people_at_once_end_with_one_of_their_decisions(aside: LaidOut) -> None:
    async def both(client: Client) -> list[HoldfastError | None]:
        async def attempt(decision: object) -> HoldfastError | None:
            try:
                await decision  # type: ignore[misc]
            except HoldfastError as error:
                return error
            return None

        job = JobId("j1")
        decisions = [release(client, aside.paths, job), discard(client, aside.paths, job)]
        return list(await asyncio.gather(*map(attempt, decisions)))

    released, discarded = aside.run(both)
    assert (released is None) != (discarded is None)
    assert isinstance(released or discarded, Refused)
    assert not is_aside(aside)
    assert (aside.get(aside.paths.job(JobId("j1"))) is None) is (discarded is None)


def test_a_lease_that_appears_meanwhile_keeps_the_job(aside: LaidOut) -> None:
    """The transaction itself fails on what it has not seen."""

    async def race(client: Client) -> None:
        class Late:
            """The client, and somebody who takes the lease just before the transaction."""

            def __getattr__(self, name: str) -> object:
                return getattr(client, name)

            async def commit(self, operations: object) -> object:
                await client.commit([Create(aside.paths.job(JobId("j1"), "lease"), ephemeral=True)])
                return await client.commit(operations)  # type: ignore[arg-type]

        with pytest.raises(Refused, match="is alive"):
            await discard(Late(), aside.paths, JobId("j1"))  # type: ignore[arg-type]
        assert await client.exists(aside.paths.job(JobId("j1"), "spec")) is not None

    aside.run(race)
