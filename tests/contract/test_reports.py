"""What a report carries from one attempt to the next, and what people are told of it."""

from holdfast.model.job import Ending, Outcome, Progress
from holdfast.model.phase import Phase
from tests.contract.backends import Backend
from tests.contract.test_leading import Cluster, play, started

FAILED = Outcome(Ending.LOST, "its machine was shut down")


def test_how_far_a_job_had_come_is_not_forgotten_by_attempts_that_never_get_as_far(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        first = await started(cluster)
        await first.give_back(FAILED, Progress(batch_id=7))
        second = await started(cluster, attempt=2)
        assert (await cluster.report()).progress == Progress(batch_id=7)
        await second.give_back(FAILED, Progress(offsets=("0",)))
        assert (await cluster.report()).progress == Progress(batch_id=7)

    play(backend, scene)


def test_the_first_batch_is_in_the_report_even_if_its_runner_is_killed_afterwards(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        for batch in (None, 0, 1):
            assert await hold.beat(driver_pid=7, progress=Progress(batch_id=batch), failsafe=())
        assert (await cluster.report()).progress == Progress(batch_id=0)

    play(backend, scene)


def test_what_was_done_before_an_attempt_began_is_an_event(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        cluster.client.take_fired()
        for _ in range(2):
            assert await hold.beat(driver_pid=7, progress=None, failsafe=(), note="offsets/7 was set aside")
            await cluster.client.sync(cluster.paths.jobs)
            cluster.leader.fired(cluster.client.take_fired())  # nothing but what was watched is looked at again
            await cluster.leader.one_pass()
        state = await cluster.state()
        assert (state.phase, state.reason) == (Phase.RUNNING, "attempt 1 runs on n1; offsets/7 was set aside")
        assert [event.phase for event in state.events] == [Phase.STARTING, Phase.RUNNING, Phase.RUNNING]
        assert [event.reason for event in state.events].count(state.reason) == 1

    play(backend, scene)


def test_a_damaged_checkpoint_parks_the_job_with_the_finding(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        await hold.give_back(Outcome(Ending.CHECKPOINT_DAMAGED, "offsets/7 is empty"), None)
        await cluster.passes()
        state = await cluster.state()
        assert (state.phase, state.reason) == (Phase.PARKED, "offsets/7 is empty")

    play(backend, scene)
