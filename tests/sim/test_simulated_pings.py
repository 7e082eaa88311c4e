"""Lazy pings and touch reports of the simulator agree to the microsecond with pings simulated one by one."""

import math
import random

import pytest

from tests.sim.test_simulated_sessions import connect_client_to_follower, create_ephemeral, removal_time_s
from tests.sim.world import World

TICK_S = 1.0
T_S = 6.0

Interval = tuple[float, float]


def contains(intervals: list[Interval], at_s: float) -> bool:
    return any(start_s <= at_s < end_s for start_s, end_s in intervals)


def ping_times(first_s: float, until_s: float, paused: list[Interval]) -> list[float]:
    """Return ping times: one every third of the timeout, none during a pause, and one when the pause ends."""
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
    """Return the expiry time if the leader gets a report of touches twice per tick."""
    last_contact_s = last_report_s = -math.inf
    for n in range(int((touches[-1] + 2 * TICK_S) / (TICK_S / 2)) + 1):
        report_s = report_phase_s + n * TICK_S / 2
        if contains(cut, report_s):
            continue
        if any(last_report_s < touch_s <= report_s for touch_s in touches):
            last_contact_s = report_s
        last_report_s = report_s
    n = 0
    while tick_phase_s + n * TICK_S <= last_contact_s + T_S:
        n += 1
    return tick_phase_s + n * TICK_S


@pytest.mark.parametrize("seed", range(60))
def test_session_end_equals_simulation_of_single_pings(seed: int) -> None:
    rng = random.Random(seed)
    paused: list[Interval] = []
    cut: list[Interval] = []
    with World(seed, tick_s=TICK_S) as world:
        client = connect_client_to_follower(world, "a", timeout_s=T_S)
        create_ephemeral(world, client, "a", "/mine")
        assert client.server is not None
        assert client._connection is not None
        server, first_s = world.zk.servers[client.server], client._connection.pings.next_ping_s
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
        if rng.random() < 0.3:  # the server never reports the last touches
            world.zk.cut(server.index)
            cut.append((world.now_s, math.inf))
        crashed_s = world.now_s
        world.crash("a")
        touches = ping_times(first_s, crashed_s, paused)
        expected_s = expected_end_s(touches, cut, server._report_phase_s, world.zk.sessions._phase_s)
        assert removal_time_s(world, "/mine") == pytest.approx(expected_s, abs=1e-6)
