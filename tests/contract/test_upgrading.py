"""Another version of a job, on the simulated and on a real ZooKeeper: what runs next, and what comes back."""

from dataclasses import replace

import pytest

from holdfast.errors import Refused
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Desired, Ending, Outcome, Progress
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.runner.lease import LeaseHold, Run, Taken
from holdfast.zk.records.submission import submit, want
from holdfast.zk.records.upgrade import Change, read_versions, upgrade
from tests.contract.backends import Backend, connected
from tests.contract.founding import SPEC
from tests.contract.test_leading import JOB, Cluster, play, started

STOPPED = Outcome(Ending.STOPPED, "it stopped at a batch boundary, as asked")
BROKEN = Outcome(Ending.FAILED, "KeyError: 'word'")
PROGRESS = Progress(batch_id=7)


def to(blob: str) -> Change:
    return lambda spec: replace(spec, script=f"{blob}.py", blob=blob, by="ada@laptop")


async def upgraded(cluster: Cluster, blob: str) -> int | None:
    return await upgrade(cluster.client, cluster.paths, JOB, to(blob), trial_s=30.0)


async def next_attempt(cluster: Cluster) -> tuple[LeaseHold, Taken]:
    """As its node would start it."""
    await cluster.passes()
    state = await cluster.state()
    assert state.phase is Phase.STARTING, state.reason
    versions = state.versions
    run = Run(JOB, state.attempt, NodeId("n1"), "x", version=versions.current, on_trial=versions.on_trial)
    hold = LeaseHold(await connected(cluster.backend), cluster.paths, run)
    taken = await hold.take(wall=1.0, failsafe=())
    await cluster.passes()
    return hold, taken


def test_the_next_attempt_runs_the_new_version_on_trial_and_history_says_who_wanted_it(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        assert await upgraded(cluster, "b2") == 2
        await hold.give_back(STOPPED, PROGRESS)
        _, taken = await next_attempt(cluster)
        assert (taken.spec.blob, taken.trial_s) == ("b2", 30.0)
        state = await cluster.state()
        assert state.versions == Versions(2, fallback=1)
        assert any("attempt 2 was given to n1, with version 2: b2.py, by ada@laptop" in event.reason for event in state.events)
        versions = await read_versions(cluster.client, cluster.paths, JOB)
        assert [(version.number, version.spec and version.spec.blob) for version in versions] == [(1, SPEC.blob), (2, "b2")]

    play(backend, scene)


def test_a_version_that_fails_before_its_first_batch_makes_room_for_the_one_before(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        await upgraded(cluster, "b2")
        await hold.give_back(STOPPED, PROGRESS)
        hold, _ = await next_attempt(cluster)
        await hold.give_back(BROKEN, None)
        hold, taken = await next_attempt(cluster)
        assert taken.spec.blob == SPEC.blob
        state = await cluster.state()
        assert state.versions == Versions(1, rejected=2)
        assert state.failures.in_a_row == 0
        assert any(
            event.reason == "version 2 did not come to its first batch: KeyError: 'word'; version 1 is back"
            for event in state.events
        )
        # Another word about the job changes nothing about that, and another version is tried again.
        await want(cluster.client, cluster.paths, JOB, Desired.RUN, again=True)
        await hold.give_back(STOPPED, PROGRESS)
        hold, taken = await next_attempt(cluster)
        assert taken.spec.blob == SPEC.blob
        assert await upgraded(cluster, "b3") == 3
        await hold.give_back(STOPPED, PROGRESS)
        _, taken = await next_attempt(cluster)
        assert (taken.spec.blob, (await cluster.state()).versions) == ("b3", Versions(3, fallback=1))

    play(backend, scene)


def test_a_version_that_has_come_to_its_first_batch_stays(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        await upgraded(cluster, "b2")
        await hold.give_back(STOPPED, PROGRESS)
        hold, _ = await next_attempt(cluster)
        assert await hold.beat(driver_pid=1, progress=PROGRESS, failsafe=(), proven=True)
        await hold.give_back(BROKEN, PROGRESS, proven=True)
        await cluster.passes()
        state = await cluster.state()
        assert (state.phase, state.versions) == (Phase.BACKOFF, Versions(2))
        assert state.failures.in_a_row == 1

    play(backend, scene)


def test_a_lost_attempt_proves_nothing_and_the_trial_goes_on(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        await upgraded(cluster, "b2")
        await hold.give_back(STOPPED, PROGRESS)
        hold, _ = await next_attempt(cluster)
        await hold.give_back(Outcome(Ending.LOST, "its machine was shut down"), None)
        _, taken = await next_attempt(cluster)
        assert (taken.spec.blob, (await cluster.state()).versions) == ("b2", Versions(2, fallback=1))

    play(backend, scene)


def test_a_stopped_job_is_upgraded_for_later(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        await want(cluster.client, cluster.paths, JOB, Desired.STOP)
        await hold.give_back(STOPPED, PROGRESS)
        await cluster.passes()
        assert await upgraded(cluster, "b2") == 2
        await cluster.passes()
        assert (await cluster.state()).phase is Phase.PARKED
        await want(cluster.client, cluster.paths, JOB, Desired.RUN)
        _, taken = await next_attempt(cluster)
        assert taken.spec.blob == "b2"

    play(backend, scene)


def test_what_is_the_same_is_no_new_version_and_what_ended_gets_none(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        assert await upgraded(cluster, "b2") == 2
        assert await upgraded(cluster, "b2") is None
        await want(cluster.client, cluster.paths, JOB, Desired.CANCEL)
        with pytest.raises(Refused, match="was cancelled, and stays so"):
            await upgraded(cluster, "b3")
        await cluster.passes()
        with pytest.raises(Refused, match="has ended"):
            await upgraded(cluster, "b3")

    play(backend, scene)


def test_two_people_upgrade_at_once_and_each_gets_a_number(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        other = await connected(cluster.backend)
        first = await upgraded(cluster, "b2")
        second = await upgrade(other, cluster.paths, JOB, to("b3"), trial_s=30.0)
        assert (first, second) == (2, 3)
        await cluster.passes()
        assert (await cluster.state()).versions == Versions(3)
        assert (await cluster.state()).attempt == Attempt(1)

    play(backend, scene)
