"""Submission, stop and cancel of jobs, on a simulated and on a real ZooKeeper."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import Refused
from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, JobState, Spec
from holdfast.model.phase import Phase
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import set_desired, submit
from holdfast.zk.session.client import Client, Operation
from holdfast.zk.session.client import ConnectionState as SessionState
from tests.contract.backends import Backend, wait_for
from tests.contract.new_cluster import SPEC, connect_to_new_cluster


async def list_jobs(client: Client, paths: Paths) -> list[str]:
    return sorted(await client.children(paths.jobs))


def test_submission_creates_every_part_of_a_job(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        assert await submit(client, paths, SPEC, job=JobId("j1"), request="r1") == "j1"
        assert sorted(await client.children(paths.job(JobId("j1")))) == ["attempt", "desired", "report", "spec", "state"]
        spec = await client.get(paths.job(JobId("j1"), "spec"))
        assert decode(Spec, spec.data, where="spec") == SPEC
        state = decode(JobState, (await client.get(paths.job(JobId("j1"), "state"))).data, where="state")
        assert (state.phase, state.attempt) == (Phase.PENDING, 0)
        assert state.reason
        assert (await client.get(paths.job(JobId("j1"), "attempt"))).stat.version == 0

    backend.run(test())


def test_repeated_request_returns_the_existing_job(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        await submit(client, paths, SPEC, job=JobId("j1"), request="r1")
        assert await submit(client, paths, SPEC, job=JobId("j2"), request="r1") == "j1"
        assert await list_jobs(client, paths) == ["j1"]

    backend.run(test())


def test_repeated_request_with_another_spec_is_refused(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        await submit(client, paths, SPEC, job=JobId("j1"), request="r1")
        other = Spec(name="other", script="other.py", blob="1" * 64)
        with pytest.raises(Refused, match="already used for job j1"):
            await submit(client, paths, other, job=JobId("j2"), request="r1")
        assert await list_jobs(client, paths) == ["j1"]

    backend.run(test())


def test_taken_name_is_refused_and_the_message_names_the_owner(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        await submit(client, paths, SPEC, job=JobId("j1"), request="r1")
        with pytest.raises(Refused, match="'words' belongs to job j1"):
            await submit(client, paths, SPEC, job=JobId("j2"), request="r2")
        assert await list_jobs(client, paths) == ["j1"]
        assert await client.exists(paths.request("r2")) is None

    backend.run(test())


@pytest.mark.parametrize("name", ["", "a/b", "..", "ü", "a" * 65, "a b"])
def test_invalid_name_is_refused(backend: Backend, name: str) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        with pytest.raises(Refused, match="cannot be used as a name"):
            await submit(client, paths, Spec(name=name, script="x", blob="0"), job=JobId("j1"), request="r1")

    backend.run(test())


def test_exactly_one_of_many_submissions_with_the_same_name_succeeds(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        calls = [submit(client, paths, SPEC, job=JobId(f"j{n}"), request=f"r{n}") for n in range(10)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(outcome, str) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 9
        assert len(await list_jobs(client, paths)) == 1

    backend.run(test())


@pytest.mark.slow
def test_thousand_concurrent_submissions_create_a_thousand_jobs(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        specs = [Spec(name=f"job{n}", script="x.py", blob="0" * 64) for n in range(1000)]
        for start in range(0, 1000, 100):
            batch = range(start, start + 100)
            await asyncio.gather(*(submit(client, paths, specs[n], job=JobId(f"j{n}"), request=f"r{n}") for n in batch))
        assert len(await list_jobs(client, paths)) == 1000

    backend.run(test())


def test_submission_with_a_lost_reply_is_not_repeated(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        losing = LosesTheReply(backend, client)
        submission = asyncio.ensure_future(
            submit(losing, paths, SPEC, job=JobId("j1"), request="r1")  # type: ignore[arg-type]  # stands for a client
        )
        await losing.lost.wait()
        await backend.restore_replies()
        assert await submission == "j1"
        await wait_for(lambda: client.state is SessionState.CONNECTED, what="connected again")
        assert await list_jobs(client, paths) == ["j1"]

    backend.run(test())


class LosesTheReply:
    """Client whose first commit is carried out but whose reply is lost."""

    def __init__(self, backend: Backend, client: Client) -> None:
        self._backend = backend
        self._client = client
        self.lost = asyncio.Event()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        method: Callable[..., Awaitable[object]] = getattr(self._client, name)
        return method

    async def commit(self, operations: list[Operation]) -> object:
        if self.lost.is_set():
            return await self._client.commit(operations)
        await self._backend.lose_replies()
        call = asyncio.ensure_future(self._client.commit(operations))
        await self._backend.advance(0.2)
        self.lost.set()
        return await call


def test_cancel_is_absorbing_and_stop_is_not(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        await submit(client, paths, SPEC, job=JobId("j1"), request="r1")
        assert await set_desired(client, paths, JobId("j1"), Desired.STOP) is Desired.RUN
        assert await set_desired(client, paths, JobId("j1"), Desired.RUN) is Desired.STOP
        assert await set_desired(client, paths, JobId("j1"), Desired.CANCEL) is Desired.RUN
        assert await set_desired(client, paths, JobId("j1"), Desired.CANCEL) is Desired.CANCEL
        for desired in (Desired.RUN, Desired.STOP):
            with pytest.raises(Refused, match="was cancelled: a cancelled job cannot run again"):
                await set_desired(client, paths, JobId("j1"), desired)

    backend.run(test())


def test_request_for_an_unknown_job_is_refused(backend: Backend) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        with pytest.raises(Refused, match="there is no job j9"):
            await set_desired(client, paths, JobId("j9"), Desired.CANCEL)

    backend.run(test())
