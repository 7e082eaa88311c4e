"""Wakeup signal of a node's loop. No test waits for time to pass, except those of the timeout."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.wakeup import Wakeup

FOREVER_S = 3600.0
SOON_S = 60.0


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, SOON_S))


async def start_waiting(wakeup: Wakeup) -> "asyncio.Task[None]":
    """Return a task that is suspended in `wait`."""
    task = asyncio.create_task(wakeup.wait(FOREVER_S))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done(), "the task does not wait"
    return task


def test_wake_ends_a_wait() -> None:
    async def test() -> None:
        wakeup = Wakeup()
        waiter = await start_waiting(wakeup)
        wakeup.wake()
        await waiter

    run(test())


def test_wake_before_the_wait_is_not_missed() -> None:
    async def test() -> None:
        wakeup = Wakeup()
        wakeup.wake()
        await wakeup.wait(FOREVER_S)

    run(test())


def test_several_wakes_end_only_one_wait() -> None:
    async def test() -> None:
        wakeup = Wakeup()
        for _ in range(3):
            wakeup.wake()
        await wakeup.wait(FOREVER_S)
        (await start_waiting(wakeup)).cancel()

    run(test())


def test_wakes_before_the_waiter_resumes_are_consumed_with_the_wait() -> None:
    async def test() -> None:
        wakeup = Wakeup()
        waiter = await start_waiting(wakeup)
        wakeup.wake()
        wakeup.wake()
        await waiter
        (await start_waiting(wakeup)).cancel()

    run(test())


def test_wake_between_two_waits_is_not_missed() -> None:
    async def test() -> None:
        wakeup = Wakeup()
        waiter = await start_waiting(wakeup)
        wakeup.wake()
        await waiter
        wakeup.wake()
        await wakeup.wait(FOREVER_S)

    run(test())


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, 0.01])
def test_wait_ends_after_its_timeout(timeout_s: float) -> None:
    run(Wakeup().wait(timeout_s))


def test_wakeup_works_after_a_cancelled_wait() -> None:
    async def test() -> None:
        wakeup = Wakeup()
        waiter = await start_waiting(wakeup)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        waiter = await start_waiting(wakeup)
        wakeup.wake()
        await waiter

    run(test())


def test_ended_wait_leaves_no_timer() -> None:
    async def test() -> None:
        wakeup = Wakeup()
        waiter = await start_waiting(wakeup)
        wakeup.wake()
        await waiter
        timers = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]  # private attribute of asyncio
        assert len(timers) == 1, "only the timer that limits this test"

    run(test())
