"""Guarantees of the simulator: time, order, pauses, crashes, and reproducible runs."""

import asyncio
import gc
import os
import subprocess
import sys
import time

import pytest

from holdfast.zk.session.client import ConnectionState, Create
from tests.sim.counter_scenario import disturbed_counters
from tests.sim.event_loop import TooManySteps
from tests.sim.world import SimulatedTimeout, World, replay


def test_time_advances_only_when_every_process_waits() -> None:
    calls: list[float] = []

    async def sleeper() -> None:
        for _ in range(3):
            await asyncio.sleep(1000)
            calls.append(asyncio.get_running_loop().time())

    started_s = time.monotonic()
    with World(1) as world:
        world.spawn("a", sleeper)
        world.run_for(2500)
        assert calls == [1000, 2000]
        assert world.now_s == 2500
    assert time.monotonic() - started_s < 1000


def test_callbacks_run_in_order_and_processes_interleave_by_seed() -> None:
    def order(seed: int) -> list[str]:
        calls: list[str] = []

        async def caller(name: str) -> None:
            for n in range(5):
                asyncio.get_running_loop().call_soon(calls.append, f"{name}{n}")

        with World(seed) as world:
            world.spawn("a", lambda: caller("a"))
            world.spawn("b", lambda: caller("b"))
            world.run_for(1)
        return calls

    orders = [order(seed) for seed in range(20)]
    for calls in orders:
        assert [entry for entry in calls if entry[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
        assert [entry for entry in calls if entry[0] == "b"] == ["b0", "b1", "b2", "b3", "b4"]
    assert len({tuple(calls) for calls in orders}) > 5
    assert order(7) == order(7)


def test_clocks_follow_simulated_time_and_machines_have_different_boot_times() -> None:
    with World(1) as world:
        a, b = world.clock("a"), world.clock("b")
        before = a.boottime(), b.boottime(), a.wall()
        world.run_for(5)
        assert a.boottime() - before[0] == pytest.approx(5)
        assert b.boottime() - before[1] == pytest.approx(5)
        assert a.wall() - before[2] == pytest.approx(5)
        assert abs(a.boottime() - b.boottime()) > 1
        assert abs(a.wall() - b.wall()) <= 1


def test_processes_share_machine_clock_that_survives_crash_but_not_power_failure() -> None:
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
            ConnectionState.SUSPENDED,
            ConnectionState.SUSPENDED,
            ConnectionState.CONNECTED,
        ]


def test_error_that_asyncio_only_logs_is_raised_at_the_end() -> None:
    async def fail() -> None:
        raise ValueError("never awaited")

    async def forget() -> None:
        asyncio.create_task(fail())  # noqa: RUF006 -- this test needs a forgotten task.

    with pytest.raises(AssertionError, match="never awaited"), World(1) as world:
        world.spawn("a", forget)
        world.run_for(1)


def test_paused_process_runs_its_timers_late() -> None:
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


def test_late_message_or_late_timer_may_run_first_after_pause() -> None:
    def order(seed: int) -> tuple[str, ...]:
        calls: list[str] = []

        async def wait() -> None:
            asyncio.get_running_loop().call_later(2.0, calls.append, "timer")

        with World(seed) as world:
            world.spawn("a", wait)
            world.schedule_at(0.5, world.pause, "a")
            world.schedule_at(1.0, world.loop.deliver, world.process("a"), calls.append, "answer")
            world.schedule_at(3.0, world.resume, "a")
            world.run_for(4)
        return tuple(calls)

    assert {order(seed) for seed in range(20)} == {("answer", "timer"), ("timer", "answer")}


def test_crashed_process_never_runs_again_not_even_finally_blocks() -> None:
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
        world.spawn("a", inner)  # a new process with the same name
        world.run_for(6)
        assert ran == ["timer", "finally"]
        ran_before_close = list(ran)
    assert ran_before_close == ["timer", "finally"]


def test_hung_event_loop_keeps_session_and_paused_process_loses_it() -> None:
    for stop, expected in (("hang", ConnectionState.CONNECTED), ("pause", ConnectionState.ENDED)):
        with World(3) as world:
            client = world.connect("a", timeout_s=5)(lambda: None)
            world.run_for(1)
            assert client.state is ConnectionState.CONNECTED
            getattr(world, stop)("a")
            world.run_for(60)
            world.resume("a")
            world.run_for(2)
            assert client.state is expected


def test_busy_loop_is_detected() -> None:
    async def busy() -> None:
        for _ in range(1_000_000):
            await asyncio.sleep(0)

    with World(1, steps_max=1000) as world:
        world.spawn("a", busy)
        with pytest.raises(TooManySteps, match="more than 1000 steps"):
            world.run_for(1)


def test_waiting_for_an_event_that_never_happens_fails() -> None:
    with World(1) as world:
        with pytest.raises(SimulatedTimeout):
            world.run(asyncio.Event().wait(), within_s=10)
        gc.collect()
        with pytest.raises(SimulatedTimeout):
            world.run_until(lambda: False, within_s=10)


def test_error_in_simulation_is_raised_with_the_seed() -> None:
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


@pytest.mark.slow
def test_same_seed_gives_same_run_and_other_seeds_give_other_runs() -> None:
    digests = {seed: replay(seed, disturbed_counters) for seed in range(5)}
    assert len(set(digests.values())) == 5
    assert digests == {seed: replay(seed, disturbed_counters) for seed in range(5)}


@pytest.mark.slow
def test_run_does_not_depend_on_hash_seed() -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        result = subprocess.run(
            [sys.executable, "-m", "tests.sim.counter_scenario", "11"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(result.stdout)
    assert digests == {replay(11, disturbed_counters) + "\n"}


@pytest.mark.slow
def test_long_trace_stays_bounded_and_digest_covers_all_entries() -> None:
    def digest(first: int) -> str:
        with World(1) as world:
            world.trace.record("number", first)
            for n in range(50_000):
                world.trace.record("number", n)
            assert len(world.trace.entries) <= 20_000
            return world.digest()

    assert digest(1) == digest(1) != digest(2)


def test_closing_a_world_discards_actions_of_its_coroutines() -> None:
    async def stubborn(world: World) -> None:
        client = world.connect("a")(lambda: None)
        try:
            await asyncio.sleep(1000)
        finally:
            await client.commit([Create("/late")])
            asyncio.create_task(asyncio.sleep(1))  # noqa: RUF006 -- this test needs a forgotten task
            await asyncio.sleep(1)

    with World(1) as world:
        world.spawn("a", lambda: stubborn(world))
        world.run_for(5)
    assert world.zk.tree.get("/late") is None


def test_closing_a_world_creates_no_event_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            loops.append(asyncio.get_event_loop())

    with World(1) as world:
        world.spawn("a", wait)
        world.run_for(5)
    assert loops == [world.loop]
