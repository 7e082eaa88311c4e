"""What becomes of an attempt whose driver does not end by itself. The driver is real; only the lease is the test's."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast import log
from holdfast.clock import SystemClock
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, Outcome, Spec
from holdfast.runner.driver import DriverWork
from holdfast.runner.lease import Run
from holdfast.runner.watchdog_client import Supervision
from holdfast.storage import open_storage
from holdfast.zk.session.connection_settings import Ensemble
from tests.harness.waiting import soon

CLOCK = SystemClock()
NOBODY = Ensemble((("127.0.0.1", 1),))
PATIENCE_S = 60.0
LONG_S = 600.0


class Performance:
    """An attempt at a script that sleeps, and the supervision that its driver is under."""

    def __init__(self, work: DriverWork, performing: "asyncio.Task[Outcome]") -> None:
        self.work = work
        self.performing = performing

    @property
    def supervision(self) -> Supervision:
        assert self.work._supervision is not None
        return self.work._supervision

    async def outcome(self) -> Outcome:
        return await asyncio.wait_for(self.performing, PATIENCE_S)


@asynccontextmanager
async def performed(directory: Path) -> AsyncIterator[Performance]:
    (directory / "storage").mkdir()
    (directory / "attempt").mkdir()
    (directory / "script").write_text("import time\ntime.sleep(600)\n")
    storage = open_storage(str(directory / "storage"))
    spec = Spec("sleeper", "sleeper.py", storage.put(directory / "script"))
    run = Run(JobId("j1"), Attempt(1), NodeId("n1"), secrets.token_hex(8))
    logger = log.configure(component="runner")
    work = DriverWork(run, directory / "attempt", cluster="c", storage=storage, ensemble=NOBODY, clock=CLOCK, log=logger)
    work.renew(CLOCK.boottime() + LONG_S)
    performing = asyncio.create_task(work.perform(spec, None))
    try:
        await soon(lambda: work.driver_pid or performing.done(), PATIENCE_S, "a driver")
        yield Performance(work, performing)
    finally:
        performing.cancel()
        await asyncio.wait({performing})


def test_a_driver_ended_at_the_deadline_is_lost_though_the_lease_is_confirmed_before_it_is_judged(tmp_path: Path) -> None:
    """It is nobody's fault. Judged by the deadline as it stands later, the driver would have been killed for no reason."""

    async def test() -> None:
        async with performed(tmp_path) as it:
            it.work.renew(CLOCK.boottime() - 1)
            await asyncio.wait_for(asyncio.shield(it.supervision.exited), PATIENCE_S)
            it.work.renew(CLOCK.boottime() + LONG_S)
            told = await it.outcome()
        assert told == Outcome(Ending.LOST, "its lease could not be confirmed before the deadline, so it was ended")

    asyncio.run(test())


def test_a_driver_that_was_told_to_end_has_the_cause_it_was_ended_for(tmp_path: Path) -> None:
    cause = Outcome(Ending.STOPPED, "a person cancelled it")

    async def test() -> None:
        async with performed(tmp_path) as it:
            it.work.end(cause)
            assert await it.outcome() == cause

    asyncio.run(test())
