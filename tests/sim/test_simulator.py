"""The simulator keeps its own promises: time, order, pauses, crashes, and the same run from the same seed."""

import asyncio
import gc
import os
import subprocess
import sys
import time

import pytest

from holdfast.zk.session.client import Create, State
from tests.sim.loop import TooManySteps
from tests.sim.scenario import disturbed_counters
from tests.sim.world import Stuck, World, replay


def test_time_passes_only_when_every_process_waits() -> None:
    seen: list[float] = []

    async def sleeper() -> None:
        for _ in range(3):
            await asyncio.sleep(1000)
            seen.append(asyncio.get_running_loop().time())

    started_s = time.monotonic()
    with World(1) as world:
        world.spawn("a", sleeper)
        world.run_for(2500)
        assert seen == [1000, 2000]
        assert world.now_s == 2500
    assert time.monotonic() - started_s < 1000


def test_a_process_runs_its_callbacks_in_order_and_processes_interleave_by_seed() -> None:
    def order(seed: int) -> list[str]:
        seen: list[str] = []

        async def caller(name: str) -> None:
            for n in range(5):
                asyncio.get_running_loop().call_soon(seen.append, f"{name}{n}")

        with World(seed) as world:
            world.spawn("a", lambda: caller("a"))
            world.spawn("b", lambda: caller("b"))
            world.run_for(1)
        return seen

    orders = [order(seed) for seed in range(20)]
    for seen in orders:
        assert [entry for entry in seen if entry[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
        assert [entry for entry in seen if entry[0] == "b"] == ["b0", "b1", "b2", "b3", "b4"]
    assert len({tuple(seen) for seen in orders}) > 5
    assert order(7) == order(7)


def test_clocks_run_with_the_world_and_no_two_machines_booted_together() -> None:
    with World(1) as world:
        a, b = world.clock("a"), world.clock("b")
        before = a.boottime(), b.boottime(), a.wall()
        world.run_for(5)
        assert a.boottime() - before[0] == pytest.approx(5)
        assert b.boottime() - before[1] == pytest.approx(5)
        assert a.wall() - before[2] == pytest.approx(5)
        assert abs(a.boottime() - b.boottime()) > 1
        assert abs(a.wall() - b.wall()) <= 1


def test_processes_of_one_machine_share_its_clocks_which_survive_a_crash_but_not_a_power_failure() -> None:
    with World(1) as world:
        clock = world.clock("n1/agent")
        assert world.clock("n1/runner") == clock
        world.crash("n1/agent")
        assert world.clock("n1/agent") == clock
        world.crash_machine("n1")
        assert world.process("n1/runner").crashed is False
        assert world.clock("n1/runner") != clock


def test_processes_of_one_machine_share_its_links() -> None:
    with World(1) as world:
        agent, runner, other = (world.connect(name)(lambda: None) for name in ("n1/agent", "n1/runner", "n2"))
        world.run_for(1)
        world.zk.network.cut("n1")
        world.run_for(8)
        assert [client.state for client in (agent, runner, other)] == [
            State.SUSPENDED,
            State.SUSPENDED,
            State.CONNECTED,
        ]


def test_a_failure_that_asyncio_would_only_log_is_raised_at_the_end() -> None:
    async def fail() -> None:
        raise ValueError("nobody looks")

    async def forget() -> None:
        asyncio.create_task(fail())  # noqa: RUF006 - that is the mistake.

    with pytest.raises(AssertionError, match="nobody looks"), World(1) as world:
        world.spawn("a", forget)
        world.run_for(1)


def test_a_paused_process_runs_late_and_loses_nothing() -> None:
    ticks: list[float] = []

    async def ticker() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(asyncio.get_running_loop().time())

    with World(1) as world:
        world.spawn("a", ticker)
        world.run_for(2.5)
        world.pause("a")
        world.run_for(10)
        assert ticks == [1, 2]
        world.resume("a")
        world.run_for(1.2)
        assert ticks == [1, 2, 12.5, 13.5]


def test_after_a_pause_the_late_answer_or_the_late_timer_may_come_first() -> None:
    def order(seed: int) -> tuple[str, ...]:
        seen: list[str] = []

        async def wait() -> None:
            asyncio.get_running_loop().call_later(2.0, seen.append, "timer")

        with World(seed) as world:
            world.spawn("a", wait)
            world.at(0.5, world.pause, "a")
            world.at(1.0, world.loop.arrive, world.process("a"), seen.append, "answer")
            world.at(3.0, world.resume, "a")
            world.run_for(4)
        return tuple(seen)

    assert {order(seed) for seed in range(20)} == {("answer", "timer"), ("timer", "answer")}


def test_a_crashed_process_never_runs_again_not_even_its_finally_blocks() -> None:
    ran: list[str] = []

    async def inner() -> None:
        try:
            await asyncio.sleep(5)
            ran.append("timer")
        finally:
            ran.append("finally")

    async def outer() -> None:
        try:
            await asyncio.gather(inner(), inner())
        finally:
            ran.append("outer")

    with World(1) as world:
        world.spawn("a", outer)
        world.run_for(1)
        world.crash("a")
        world.run_for(100)
        assert ran == []
        world.spawn("a", inner)  # a new process of the same name is another process
        world.run_for(6)
        assert ran == ["timer", "finally"]
        verdict = list(ran)
    assert verdict == ["timer", "finally"]


def test_a_hung_event_loop_keeps_its_session_and_a_paused_process_does_not() -> None:
    for stop, expected in (("hang", State.CONNECTED), ("pause", State.ENDED)):
        with World(3) as world:
            client = world.connect("a", timeout_s=5)(lambda: None)
            world.run_for(1)
            assert client.state is State.CONNECTED
            getattr(world, stop)("a")
            world.run_for(60)
            world.resume("a")
            world.run_for(2)
            assert client.state is expected


def test_a_busy_loop_is_found_out() -> None:
    async def busy() -> None:
        for _ in range(1_000_000):
            await asyncio.sleep(0)

    with World(1, steps_max=1000) as world:
        world.spawn("a", busy)
        with pytest.raises(TooManySteps, match="more than 1000 steps"):
            world.run_for(1)


def test_waiting_for_what_never_happens_fails_instead_of_hanging() -> None:
    with World(1) as world:
        with pytest.raises(Stuck):
            world.run(asyncio.Event().wait(), within_s=10)
        gc.collect()
        with pytest.raises(Stuck):
            world.run_until(lambda: False, within_s=10)


def test_whatever_goes_wrong_inside_is_raised_with_the_seed() -> None:
    async def broken() -> None:
        await asyncio.sleep(1)
        raise ValueError("broken")

    with World(42) as world:
        world.spawn("a", broken)
        with pytest.raises(ValueError, match="broken") as caught:
            world.run_for(5)
        assert world.now_s == 1
    assert any("seed 42, trace " in note for note in caught.value.__notes__)


def test_threads_are_refused() -> None:
    with World(1) as world, pytest.raises(RuntimeError, match="no threads"):
        world.run(asyncio.to_thread(int))


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    digests = {seed: replay(seed, disturbed_counters) for seed in range(5)}
    assert len(set(digests.values())) == 5
    assert digests == {seed: replay(seed, disturbed_counters) for seed in range(5)}


def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        result = subprocess.run(
            [sys.executable, "-m", "tests.sim.scenario", "11"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(result.stdout)
    assert digests == {replay(11, disturbed_counters) + "\n"}


def test_a_long_trace_stays_bounded_and_its_digest_still_covers_everything() -> None:
    def digest(first: int) -> str:
        with World(1) as world:
            world.trace.record("number", first)
            for n in range(50_000):
                world.trace.record("number", n)
            assert len(world.trace.entries) <= 20_000
            return world.digest()

    assert digest(1) == digest(1) != digest(2)


def test_closing_a_world_is_silent_whatever_its_coroutines_still_do() -> None:
    async def stubborn(world: World) -> None:
        client = world.connect("a")(lambda: None)
        try:
            await asyncio.sleep(1000)
        finally:
            await client.commit([Create("/late")])
            asyncio.create_task(asyncio.sleep(1))  # noqa: RUF006
            await asyncio.sleep(1)

    with World(1) as world:
        world.spawn("a", lambda: stubborn(world))
        world.run_for(5)
    assert world.zk.tree.get("/late") is None
