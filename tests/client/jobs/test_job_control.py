"""Control requests whose connection is lost in the middle, on an in-memory client that drops replies."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from holdfast.client.jobs.job_control import ControlRequest, decide_cancel
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, DesiredRecord, JobState, Spec
from holdfast.model.phase import Phase
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import set_desired, submit
from holdfast.zk.session.client import Committed, Operation, Rejected, SetData
from tests.harness.znodes import InMemoryZnodes

JOB = JobId("j1")
PATHS = Paths("default")
DESIRED = PATHS.job(JOB, "desired")
STATE = PATHS.job(JOB, "state")


@dataclass
class LossyZnodes(InMemoryZnodes):
    """Client that loses its connection after the next write; with `loses_reply` the reply to that write is lost too."""

    armed: bool = False
    loses_reply: bool = False
    lost: bool = False

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        outcome = await super().commit(operations)
        if self.armed:
            self.armed, self.lost = False, True
            if self.loses_reply:
                raise OutcomeUnknown("the connection was lost before the reply")
        return outcome

    async def sync(self, path: str) -> None:
        if self.lost:
            raise Unavailable("no connection")
        await super().sync(path)

    async def read_many(self, reads: Sequence[Any]) -> list[Any]:
        if self.lost:
            raise Unavailable("no connection")
        return await super().read_many(reads)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


async def submitted_job() -> LossyZnodes:
    client = LossyZnodes()
    for path in PATHS.required_znodes:
        client.put(path)
    await submit(client, PATHS, Spec(name="words", script="words.py", blob="0" * 64), job=JOB, request="r1")
    return client


async def finish_cancel(client: LossyZnodes) -> None:
    """Do what a leader does after a cancel: write the final phase."""
    znode = client.znodes[STATE]
    state = replace(decode(JobState, znode.data, where=STATE), phase=Phase.CANCELLED)
    await client.commit([SetData(STATE, encode(state), znode.stat.version)])


def test_cancel_is_acknowledged_if_the_connection_is_lost_after_the_write_and_the_job_ends_meanwhile() -> None:
    async def main() -> None:
        client = await submitted_job()
        request = ControlRequest(PATHS, "words", decide_cancel)
        client.armed = True
        with pytest.raises(Unavailable):
            await request.run(client)
        client.lost = False
        await finish_cancel(client)
        result = await request.run(client)
        assert result.changed
        assert result.job.phase is not Phase.CANCELLED, "the state before the request"
        assert client.znodes[DESIRED].stat.version == 1, "one write"

    run(main())


@pytest.mark.slow
def test_write_whose_reply_is_lost_before_an_outage_has_an_unknown_outcome() -> None:
    async def main() -> None:
        client = await submitted_job()
        client.armed = client.loses_reply = True
        with pytest.raises(OutcomeUnknown, match="holdfast show j1"):
            await set_desired(client, PATHS, JOB, Desired.CANCEL)
        assert decode(DesiredRecord, client.znodes[DESIRED].data, where=DESIRED).desired is Desired.CANCEL

    run(main())


@pytest.mark.slow
def test_outage_before_the_write_has_no_effect_and_says_so() -> None:
    async def main() -> None:
        client = await submitted_job()
        client.lost = True
        with pytest.raises(Unavailable):
            await set_desired(client, PATHS, JOB, Desired.CANCEL)
        assert client.znodes[DESIRED].stat.version == 0

    run(main())
