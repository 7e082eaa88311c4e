"""The simulator works pings and reports out lazily. Here they are sent one by one, and both must agree to the microsecond."""

import math
import random

import pytest

from tests.sim.test_simulated_sessions import connected_to_a_follower, gone_s, hold
from tests.sim.world import World

TICK_S = 1.0
T_S = 6.0

Interval = tuple[float, float]


def inside(intervals: list[Interval], at_s: float) -> bool:
    return any(start_s <= at_s < end_s for start_s, end_s in intervals)


def pings(first_s: float, until_s: float, paused: list[Interval]) -> list[float]:
    """Every third of the timeout; none while paused, and one at the moment of waking."""
    sent = []
    starts = [first_s, *(end_s for _, end_s in paused)]
    ends = [*(start_s for start_s, _ in paused), until_s]
    for start_s, end_s in zip(starts, ends, strict=True):
        at_s = start_s
        while at_s <= end_s:
            sent.append(at_s)
            at_s += T_S / 3
    return sent


def expected_end_s(touches: list[float], cut: list[Interval], report_phase_s: float, tick_phase_s: float) -> float:
    """What a leader concludes that is told twice per tick which sessions were touched since it was last told."""
    heard_s = told_s = -math.inf
    for n in range(int((touches[-1] + 2 * TICK_S) / (TICK_S / 2)) + 1):
        report_s = report_phase_s + n * TICK_S / 2
        if inside(cut, report_s):
            continue
        if any(told_s < touch_s <= report_s for touch_s in touches):
            heard_s = report_s
        told_s = report_s
    n = 0
    while tick_phase_s + n * TICK_S <= heard_s + T_S:
        n += 1
    return tick_phase_s + n * TICK_S


@pytest.mark.parametrize("seed", range(60))
def test_a_session_ends_exactly_when_pings_sent_one_by_one_would_have_it_end(seed: int) -> None:
    rng = random.Random(seed)
    paused: list[Interval] = []
    cut: list[Interval] = []
    with World(seed, tick_s=TICK_S) as world:
        client = connected_to_a_follower(world, "a", timeout_s=T_S)
        hold(world, client, "a", "/mine")
        assert client.server is not None
        assert client._connection is not None
        server, first_s = world.zk.servers[client.server], client._connection.pulse.next_ping_s
        world.run_for(rng.uniform(T_S, 2 * T_S))
        for _ in range(rng.randrange(4)):
            start_s = world.now_s
            if rng.random() < 0.5:
                world.pause("a")
                world.run_for(rng.uniform(0.1, 3.0))
                world.resume("a")
                paused.append((start_s, world.now_s))
            else:
                world.zk.cut(server.index)
                world.run_for(rng.uniform(0.1, 2.5))
                world.zk.heal(server.index)
                cut.append((start_s, world.now_s))
            world.run_for(rng.uniform(0.0, 4.0))
        if rng.random() < 0.3:  # the last touches are lost with the server
            world.zk.cut(server.index)
            cut.append((world.now_s, math.inf))
        crashed_s = world.now_s
        world.crash("a")
        touches = pings(first_s, crashed_s, paused)
        expected_s = expected_end_s(touches, cut, server._report_phase_s, world.zk.sessions._phase_s)
        assert gone_s(world, "/mine") == pytest.approx(expected_s, abs=1e-6)
