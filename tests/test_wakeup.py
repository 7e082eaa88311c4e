"""The bell that wakes a node's loop. No time passes here except where a wait is meant to run out."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.wakeup import Alarm

FOREVER_S = 3600.0
SOON_S = 60.0


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, SOON_S))


async def waiting(alarm: Alarm) -> "asyncio.Task[None]":
    """A loop that sleeps on the alarm, as deep as it gets."""
    task = asyncio.create_task(alarm.wait(FOREVER_S))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done(), "it does not sleep"
    return task


def test_a_ring_wakes_whoever_waits() -> None:
    async def test() -> None:
        alarm = Alarm()
        sleeper = await waiting(alarm)
        alarm.ring()
        await sleeper

    run(test())


def test_a_ring_that_came_before_the_wait_is_not_missed() -> None:
    async def test() -> None:
        alarm = Alarm()
        alarm.ring()
        await alarm.wait(FOREVER_S)

    run(test())


def test_rings_are_not_counted() -> None:
    async def test() -> None:
        alarm = Alarm()
        for _ in range(3):
            alarm.ring()
        await alarm.wait(FOREVER_S)
        (await waiting(alarm)).cancel()

    run(test())


def test_the_ring_that_woke_someone_is_used_up() -> None:
    async def test() -> None:
        alarm = Alarm()
        sleeper = await waiting(alarm)
        alarm.ring()
        alarm.ring()
        await sleeper
        (await waiting(alarm)).cancel()

    run(test())


def test_a_ring_after_the_waking_and_before_the_next_wait_is_not_missed() -> None:
    async def test() -> None:
        alarm = Alarm()
        sleeper = await waiting(alarm)
        alarm.ring()
        await sleeper
        alarm.ring()
        await alarm.wait(FOREVER_S)

    run(test())


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, 0.01])
def test_a_wait_ends_by_itself(timeout_s: float) -> None:
    run(Alarm().wait(timeout_s))


def test_a_wait_that_was_given_up_leaves_the_alarm_in_order() -> None:
    async def test() -> None:
        alarm = Alarm()
        sleeper = await waiting(alarm)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper
        sleeper = await waiting(alarm)
        alarm.ring()
        await sleeper

    run(test())


def test_a_wait_that_ended_leaves_no_timer_behind() -> None:
    async def test() -> None:
        alarm = Alarm()
        sleeper = await waiting(alarm)
        alarm.ring()
        await sleeper
        timers = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        assert len(timers) == 1, "only the one that bounds this test"

    run(test())
