"""Small scenario that uses every part of the simulator, for tests of the simulator itself.

Three processes each increment a counter znode and hold an ephemeral znode, while servers, links and processes fail at random.
After all faults are healed, every process must be counting again.
"""

import asyncio
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.zk.session.client import Client, Committed, ConnectionState, Create, SetData
from tests.sim.world import World, replay

NAMES = ("a", "b", "c")
FAULTS_S = 25.0
HEALING_S = 25.0
PERIOD_S = 0.5
TIMEOUT_S = 8.0


@dataclass(slots=True)
class Tally:
    """Increments that one process knows to be committed, and increments with an unknown outcome."""

    done: int = 0
    unknown: int = 0


async def counter(world: World, name: str, tally: Tally) -> None:
    """Increment the counter until the world ends; open a new session whenever one ends."""
    while True:
        woken = asyncio.Event()
        client = world.connect(name, timeout_s=TIMEOUT_S)(woken.set)
        while client.state is not ConnectionState.ENDED:
            woken.clear()
            if client.state is not ConnectionState.CONNECTED:
                await woken.wait()
                continue
            try:
                await _count(client, name, tally)
            except OutcomeUnknown:
                tally.unknown += 1
            except (Unavailable, SessionEnded):
                pass
            await asyncio.sleep(PERIOD_S)


async def _count(client: Client, name: str, tally: Tally) -> None:
    if await client.exists(f"/here-{name}", watch=True) is None:
        await client.commit([Create(f"/here-{name}", ephemeral=True)])
    await client.children("/", watch=True)
    znode = await client.get(f"/count-{name}", watch=True)
    count = b"%d" % (int(znode.data) + 1)
    if isinstance(await client.commit([SetData(f"/count-{name}", count, znode.stat.version)]), Committed):
        tally.done += 1


def disturbed_counters(world: World) -> dict[str, Tally]:
    tallies = {name: Tally() for name in NAMES}
    for name in NAMES:
        world.zk.write(f"/count-{name}", b"0")
        _start(world, name, tallies[name])
    rng = random.Random(f"{world.seed}/faults")
    at_s = 1.0
    while (at_s := at_s + rng.uniform(0.1, 2.0)) < FAULTS_S:
        world.schedule_at(at_s, rng.choice(_faults(world, rng, tallies)))
    world.run_for(FAULTS_S)
    _heal(world)
    world.run_for(HEALING_S)
    return tallies


def _start(world: World, name: str, tally: Tally) -> None:
    world.spawn(name, lambda: counter(world, name, tally))


def _faults(world: World, rng: random.Random, tallies: dict[str, Tally]) -> list[Callable[[], None]]:
    zk, network = world.zk, world.zk.network
    server, name, seconds = rng.randrange(len(zk.servers)), rng.choice(NAMES), rng.uniform(0.1, 6.0)

    def crash() -> None:
        world.crash(name)
        tallies[name].unknown += 1  # an increment may have been in flight
        _start(world, name, tallies[name])

    return [
        crash,
        lambda: zk.kill(server),
        lambda: zk.restart(server),
        lambda: zk.pause(server),
        lambda: zk.resume(server),
        lambda: zk.cut(server),
        lambda: zk.heal(server),
        zk.change_leader,
        zk.drop_connections,
        lambda: zk.stall_commits(seconds),
        lambda: world.pause(name),
        lambda: world.hang(name),
        lambda: world.resume(name),
        lambda: network.cut(name, server, replies=False),
        lambda: network.cut(name, requests=False),
        lambda: network.cut(name),
        lambda: network.delay_replies(name, seconds),
        lambda: network.heal(name),
    ]


def _heal(world: World) -> None:
    for server in world.zk.servers:
        world.zk.resume(server.index)
        world.zk.heal(server.index)
        world.zk.restart(server.index)
    for name in NAMES:
        world.resume(name)
        world.zk.network.heal(name)


if __name__ == "__main__":
    sys.stdout.write(replay(int(sys.argv[1]), disturbed_counters) + "\n")
