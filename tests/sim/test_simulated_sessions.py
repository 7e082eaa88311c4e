"""Lifetime of sessions in the simulated ensemble."""

import asyncio

import pytest

from holdfast.zk.session.client import ConnectionState, Create, SetData
from tests.sim.counter_scenario import NAMES, disturbed_counters
from tests.sim.world import World
from tests.sim.zk.client import SimClient

SEEDS = range(25)
TICK_S = 1.0
T_S = 6.0


def connect_client(world: World, name: str, *, timeout_s: float = T_S, reply_timeout_s: float | None = None) -> SimClient:
    client = world.connect(name, timeout_s=timeout_s, reply_timeout_s=reply_timeout_s)(lambda: None)
    world.run_until(lambda: client.state is ConnectionState.CONNECTED, within_s=10, what=f"{name} connected")
    return client


def connect_client_to_follower(world: World, name: str, **options: float) -> SimClient:
    while True:
        client = connect_client(world, name, **options)
        if client.server != world.zk.leader:
            return client
        world.run(client.close(), process=name)


def create_ephemeral(world: World, client: SimClient, name: str, path: str) -> None:
    """Give the client an ephemeral znode."""
    world.run(client.commit([Create(path, ephemeral=True)]), process=name)


def removal_time_s(world: World, path: str, within_s: float = 60) -> float:
    world.run_until(lambda: world.zk.tree.get(path) is None, within_s=within_s, what=f"{path} gone")
    return world.now_s


@pytest.mark.parametrize("seed", SEEDS)
def test_session_of_crashed_process_expires_after_its_timeout(seed: int) -> None:
    with World(seed, tick_s=TICK_S) as world:
        client = connect_client(world, "a")
        create_ephemeral(world, client, "a", "/mine")
        world.run_for(world.zk.random.uniform(0, 10))
        crashed_s = world.now_s
        world.crash("a")
        lived_s = removal_time_s(world, "/mine") - crashed_s
        # The last ping was at most T/3 ago; its report takes half a tick, and expiry is rounded up to a tick.
        assert T_S * 2 / 3 < lived_s <= T_S + 1.5 * TICK_S + 0.01


@pytest.mark.parametrize("seed", SEEDS)
def test_session_can_be_closed_by_id_and_password(seed: int) -> None:
    with World(seed) as world:
        client = connect_client(world, "a")
        create_ephemeral(world, client, "a", "/mine")
        world.crash("a")
        assert client.session is not None
        crashed_s = world.now_s
        world.zk.close_session(client.session)
        assert removal_time_s(world, "/mine") - crashed_s < 0.1


def test_another_process_can_resume_session_only_with_its_password() -> None:
    with World(5) as world:
        client = connect_client(world, "a")
        create_ephemeral(world, client, "a", "/mine")
        world.crash("a")
        assert client.session is not None
        thief = world.connect("b", resume=type(client.session)(client.session.id, b"wrong"))(lambda: None)
        world.run_for(1)
        assert thief.state is ConnectionState.ENDED
        guard = world.connect("b", resume=client.session)(lambda: None)
        world.run_until(lambda: guard.state is ConnectionState.CONNECTED, within_s=5)
        assert world.zk.tree.get("/mine") is not None
        world.run(guard.close(), process="b")
        assert world.zk.tree.get("/mine") is None


def test_session_survives_short_pause_and_ends_in_long_pause() -> None:
    for seed in SEEDS:
        for pause_s, expected in ((T_S / 3, ConnectionState.CONNECTED), (T_S + 3 * TICK_S, ConnectionState.ENDED)):
            with World(seed, tick_s=TICK_S) as world:
                client = connect_client(world, "a")
                session = client.session
                world.pause("a")
                world.run_for(pause_s)
                world.resume("a")
                world.run_for(3)
                assert (client.state, client.session) == (expected, session), (seed, pause_s)


def test_committed_write_does_not_extend_session_if_touch_is_not_reported() -> None:
    """Measured on real ZooKeeper: the ephemeral znode is gone before send + T while the client is connected and reading."""
    timeout_s, heartbeat_s, early = 4.0, 0.5, []
    for seed in SEEDS:
        with World(seed, tick_s=TICK_S) as world:
            client = connect_client_to_follower(world, "a", timeout_s=timeout_s, reply_timeout_s=100.0)
            create_ephemeral(world, client, "a", "/mine")
            server = client.server
            assert server is not None
            for version in range(6):
                sent_s = world.now_s
                world.run(client.commit([SetData("/mine", b"", version)]), process="a")
                if version < 5:
                    world.run_for(heartbeat_s)
            world.zk.cut(server)
            ended_s = removal_time_s(world, "/mine")
            assert client.state is ConnectionState.CONNECTED
            assert world.run(client.exists("/mine"), process="a") is not None, "the server has not noticed the expiry"
            early.append(sent_s + timeout_s - ended_s)
    assert max(early) > 0
    assert max(early) <= heartbeat_s + TICK_S / 2 + 0.02
    assert min(early) > -1.5 * TICK_S


@pytest.mark.parametrize("seed", SEEDS)
def test_new_leader_gives_every_session_a_full_timeout(seed: int) -> None:
    with World(seed, tick_s=TICK_S) as world:
        client = connect_client(world, "a")
        create_ephemeral(world, client, "a", "/mine")
        world.crash("a")
        world.run_for(T_S / 2)
        world.zk.change_leader()
        changed_s = world.now_s
        lived_s = removal_time_s(world, "/mine") - changed_s
        assert T_S < lived_s <= 2.0 + T_S + TICK_S + 0.01


@pytest.mark.parametrize("seed", SEEDS)
def test_no_session_expires_without_quorum(seed: int) -> None:
    with World(seed, tick_s=TICK_S) as world:
        client = connect_client(world, "a")
        create_ephemeral(world, client, "a", "/mine")
        world.crash("a")
        for follower in world.zk.followers:
            world.zk.kill(follower)
        world.run_for(100)
        assert world.zk.tree.get("/mine") is not None
        for server in range(3):
            world.zk.restart(server)
        restarted_s = world.now_s
        assert T_S < removal_time_s(world, "/mine") - restarted_s <= 2.0 + T_S + TICK_S + 0.01


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_requests_and_lost_replies_suspend_then_end_the_session(seed: int) -> None:
    with World(seed, tick_s=TICK_S) as world:
        deaf, mute = connect_client(world, "deaf"), connect_client(world, "mute")
        create_ephemeral(world, deaf, "deaf", "/deaf")
        create_ephemeral(world, mute, "mute", "/mute")
        world.zk.network.cut("deaf", requests=False)
        world.zk.network.cut("mute", replies=False)
        cut_s = world.now_s
        world.run_until(lambda: deaf.state is mute.state is ConnectionState.SUSPENDED, within_s=T_S)
        assert T_S / 3 - 0.01 <= world.now_s - cut_s <= 2 * T_S / 3 + 0.01
        # Pings of `deaf` arrived until it gave up the connection; pings of `mute` did not arrive.
        assert removal_time_s(world, "/mute") <= removal_time_s(world, "/deaf")
        world.zk.network.heal("deaf")
        world.zk.network.heal("mute")
        world.run_until(lambda: deaf.state is mute.state is ConnectionState.ENDED, within_s=10)


def test_slow_replies_keep_connection_and_very_slow_replies_lose_it() -> None:
    with World(3) as world:
        client = connect_client(world, "a", reply_timeout_s=100.0)
        world.zk.network.delay_replies("a", T_S / 4)
        world.run_for(30)
        assert client.state is ConnectionState.CONNECTED
        asked_s = world.now_s
        world.run(client.exists("/"), process="a")
        assert T_S / 4 < world.now_s - asked_s < T_S / 4 + 0.1
        world.zk.network.delay_replies("a", T_S)
        world.run_until(lambda: client.state is ConnectionState.SUSPENDED, within_s=T_S)


def test_client_leaves_hanging_server_after_reply_timeout() -> None:
    for seed in SEEDS:
        with World(seed) as world:
            client = connect_client_to_follower(world, "a", timeout_s=10.0)
            server = client.server
            assert server is not None
            world.zk.pause(server)
            asked_s = world.now_s
            call = world.spawn("a", lambda client=client: _outcome_name(client))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            world.run_until(lambda client=client: client.state is ConnectionState.SUSPENDED, within_s=10)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            assert world.now_s - asked_s == pytest.approx(2.0, abs=0.01)
            world.run_until(lambda client=client: client.state is ConnectionState.CONNECTED, within_s=3)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            assert client.server != server
            assert call.result() == "OutcomeUnknown"


async def _outcome_name(client: SimClient) -> str:
    try:
        await client.commit([Create("/asked")])
    except Exception as error:  # noqa: BLE001 -- the error's name is the result.
        return type(error).__name__
    await asyncio.sleep(0)
    return "done"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_counters_continue_after_faults_and_no_acknowledged_write_is_lost(seed: int) -> None:
    with World(seed) as world:
        tallies = disturbed_counters(world)
        done_before = {name: tally.done for name, tally in tallies.items()}
        world.run_for(5)
        for name in NAMES:
            count = world.zk.tree.get(f"/count-{name}")
            assert count is not None
            assert tallies[name].done > done_before[name]
            # One more write may be in flight.
            assert tallies[name].done <= int(count.data) <= tallies[name].done + tallies[name].unknown + 1
        assert len(world.zk.sessions.by_id) == len(NAMES)
        assert sum(len(server.connections) for server in world.zk.servers) == len(NAMES)
        assert world.loop.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_sessions_expire_when_servers_continue_that_were_paused_for_longer_than_the_timeout(seed: int) -> None:
    with World(seed, tick_s=TICK_S) as world:
        client = connect_client(world, "a")
        create_ephemeral(world, client, "a", "/mine")
        world.zk.pause_all()
        world.run_for(2 * T_S)
        assert world.zk.tree.get("/mine") is not None
        world.zk.resume_all()
        assert world.zk.tree.get("/mine") is None
        world.run_until(lambda: client.state is ConnectionState.ENDED, within_s=2 * T_S, what="session ended")


@pytest.mark.parametrize("seed", SEEDS)
def test_sessions_survive_a_pause_of_all_servers_that_is_shorter_than_the_timeout(seed: int) -> None:
    with World(seed, tick_s=TICK_S) as world:
        client = connect_client(world, "a")
        world.zk.pause_all()
        world.run_for(T_S / 3)
        world.zk.resume_all()
        world.run_for(2 * T_S)
        assert client.state is ConnectionState.CONNECTED
        create_ephemeral(world, client, "a", "/mine")
