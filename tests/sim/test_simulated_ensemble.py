"""Simulated ensemble: faults of servers, disks and links, and hooks on single transactions."""

import asyncio

import pytest

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.zk.session.client import Check, Committed, ConnectionState, Create, Delete, Rejected, SetData
from tests.sim.test_simulated_sessions import connect_client, connect_client_to_follower
from tests.sim.world import World
from tests.sim.zk.client import SimClient
from tests.sim.zk.requests import touches_path

SEEDS = range(20)


async def outcome(client: SimClient, *operations: Create | SetData | Delete | Check) -> object:
    try:
        return await client.commit(operations)
    except (OutcomeUnknown, Unavailable) as error:
        return error


@pytest.mark.parametrize("seed", SEEDS)
def test_isolated_follower_serves_stale_reads_then_drops_its_clients(seed: int) -> None:
    with World(seed) as world:
        reader = connect_client_to_follower(world, "reader", timeout_s=10.0)
        writer = connect_client(world, "writer")
        assert reader.server is not None
        world.run(writer.commit([Create("/x", b"old")]), process="writer")
        world.run_for(0.1)
        cut_server = reader.server
        world.zk.cut(cut_server)
        cut_s = world.now_s
        if writer.server == cut_server:  # the write hangs until the reply timeout
            world.run(outcome(writer, Check("/x", 0)), process="writer")
            world.run_until(lambda: writer.state is ConnectionState.CONNECTED, within_s=10)
        world.run(writer.commit([SetData("/x", b"new", 0)]), process="writer")
        world.run_for(cut_s + 4.5 - world.now_s)
        assert world.run(reader.get("/x"), process="reader").data == b"old"
        assert reader.state is ConnectionState.CONNECTED
        world.run_until(lambda: reader.state is ConnectionState.SUSPENDED, within_s=2)
        assert 5.0 <= world.now_s - cut_s < 5.6
        world.run_until(lambda: reader.state is ConnectionState.CONNECTED, within_s=3)
        assert reader.server != cut_server
        assert world.run(reader.get("/x"), process="reader").data == b"new"
        world.zk.heal(cut_server)
        world.run_for(1)
        assert world.zk.servers[cut_server].node("/x") == world.zk.tree.nodes["/x"]


def test_write_through_isolated_follower_is_committed_after_it_reconnects() -> None:
    committed = []
    for seed in SEEDS:
        with World(seed) as world:
            client = connect_client_to_follower(world, "a", timeout_s=10.0, reply_timeout_s=100.0)
            server = client.server
            assert server is not None
            world.zk.cut(server)
            call = world.spawn("a", lambda client=client: outcome(client, Create("/x")))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            world.run_for(2)
            assert world.zk.tree.get("/x") is None
            assert not call.done()
            world.zk.heal(server)
            world.run_for(1)
            committed.append(isinstance(call.result(), Committed))
    assert all(committed)


@pytest.mark.parametrize("seed", SEEDS)
def test_reads_lag_behind_commits_unless_synced(seed: int) -> None:
    with World(seed) as world:
        reader = connect_client_to_follower(world, "reader")
        stale = 0

        async def read_immediately(version: int) -> None:
            nonlocal stale
            world.zk.write("/x", b"%d" % version)
            stale += (await reader.get("/x")).data != b"%d" % version
            world.zk.write("/x", b"synced")
            await reader.sync("/x")
            assert (await reader.get("/x")).data == b"synced"

        world.zk.write("/x", b"")
        world.run_for(0.1)
        for version in range(50):
            world.run(read_immediately(version), process="reader")
        assert 0 < stale < 50


def test_server_refuses_client_that_has_seen_a_newer_state() -> None:
    with World(4) as world:
        client = connect_client(world, "a")
        client._transport.zxid = world.zk.tree.zxid + 1
        world.zk.drop_connections()
        world.run_for(3)
        assert client.state is ConnectionState.SUSPENDED
        world.zk.write("/newer", b"")
        world.run_until(lambda: client.state is ConnectionState.CONNECTED, within_s=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_leader_change_drops_connections_and_keeps_sessions_and_data(seed: int) -> None:
    with World(seed) as world:
        client = connect_client(world, "a")
        world.run(client.commit([Create("/x", ephemeral=True)]), process="a")
        leader, session = world.zk.leader, client.session
        world.zk.change_leader()
        changed_s = world.now_s
        assert world.zk.leader is None
        world.run_until(lambda: client.state is ConnectionState.SUSPENDED, within_s=0.1)
        world.run_until(lambda: client.state is ConnectionState.CONNECTED, within_s=5)
        assert 0.2 < world.now_s - changed_s < 3.5
        assert client.session == session
        assert world.zk.leader != leader
        assert world.zk.tree.get("/x") is not None
        assert isinstance(world.run(client.commit([Delete("/x", 0)]), process="a"), Committed)


@pytest.mark.parametrize("seed", SEEDS)
def test_paused_leader_is_replaced_and_returns_as_follower(seed: int) -> None:
    with World(seed) as world:
        client = connect_client(world, "a", timeout_s=10.0)
        leader = world.zk.leader
        assert leader is not None
        world.zk.pause(leader)
        world.run_until(lambda: world.zk.leader not in (None, leader), within_s=8)
        world.run_until(lambda: client.state is ConnectionState.CONNECTED and client.server != leader, within_s=10)
        assert isinstance(world.run(client.commit([Create("/x")]), process="a"), Committed)
        world.zk.resume(leader)
        world.run_for(2)
        assert world.zk.servers[leader].node("/x") is not None
        assert world.zk.leader != leader


def test_stalled_disk_delays_writes_but_not_reads_and_late_write_is_committed() -> None:
    with World(6) as world:
        client, other = connect_client(world, "a", timeout_s=10.0), connect_client(world, "b")
        world.zk.stall_commits(4.0)
        stalled_s = world.now_s
        call = world.spawn("a", lambda: outcome(client, Create("/x")))
        world.run_for(0.1)
        assert world.run(other.exists("/x"), process="b", within_s=0.1) is None
        world.run_until(call.done, within_s=5)
        assert isinstance(call.result(), OutcomeUnknown)
        # The caller reads from another server without sync and sees nothing. The write is committed anyway.
        world.run_until(lambda: client.state is ConnectionState.CONNECTED, within_s=3)
        assert world.run(client.exists("/x"), process="a") is None
        assert world.now_s < stalled_s + 4
        world.run_until(lambda: world.zk.tree.get("/x") is not None, within_s=4)


def test_call_in_flight_is_committed_or_lost_when_its_server_dies() -> None:
    outcomes = set()
    for seed in range(60):
        with World(seed) as world:
            client = connect_client_to_follower(world, "a")
            server = client.server
            assert server is not None
            call = world.spawn("a", lambda client=client: outcome(client, Create("/x")))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            world.run_for(world.zk.random.uniform(0, 0.01))
            world.zk.kill(server)
            world.run_for(1)
            outcomes.add((isinstance(call.result(), Committed), world.zk.tree.get("/x") is not None))
    assert outcomes == {(True, True), (False, True), (False, False)}


@pytest.mark.parametrize("seed", SEEDS)
def test_hooks_run_directly_before_and_directly_after_a_transaction(seed: int) -> None:
    with World(seed) as world:
        client = connect_client(world, "a", timeout_s=10.0)
        before = world.zk.hook_before(touches_path("/epoch"), lambda _: world.zk.network.cut("a"))
        calls: list[object] = []
        world.zk.hook_before(touches_path("/epoch"), lambda t: calls.append((t.process, world.zk.tree.get("/epoch"))))
        assert isinstance(world.run(outcome(client, Create("/other")), process="a"), Committed)
        assert before.fired == 0
        assert isinstance(world.run(outcome(client, Create("/epoch")), process="a"), OutcomeUnknown)
        assert (before.fired, calls) == (1, [("a", None)])
        assert world.zk.tree.get("/epoch") is not None, "the reply was lost, not the write"

        world.zk.network.heal("a")
        world.run_until(lambda: client.state is ConnectionState.CONNECTED, within_s=10)
        world.zk.hook_after(touches_path("/epoch"), lambda _: world.pause("a"), skip=1)
        assert isinstance(world.run(outcome(client, SetData("/epoch", b"1", 0)), process="a"), Committed)
        call = world.spawn("a", lambda: outcome(client, SetData("/epoch", b"2", 1)))
        world.run_for(1)
        epoch = world.zk.tree.get("/epoch")
        assert epoch is not None
        assert epoch.data == b"2"
        assert not call.done(), "the client is paused between the commit and the reply"
        world.resume("a")
        world.run_for(0.1)
        assert isinstance(call.result(), Committed)


def test_hook_that_stalls_commits_delays_its_transaction() -> None:
    with World(2) as world:
        client = connect_client(world, "a")
        world.zk.hook_before(touches_path("/x"), lambda _: world.zk.stall_commits(3))
        call = world.spawn("a", lambda: outcome(client, Create("/x")))
        world.run_for(1)
        assert world.zk.tree.get("/x") is None
        world.run_for(3)
        assert isinstance(call.result(), OutcomeUnknown)
        assert world.zk.tree.get("/x") is not None


def test_hook_matches_session_end_by_its_ephemeral_znodes() -> None:
    with World(2) as world:
        client = connect_client(world, "a")
        world.run(client.commit([Create("/lease", ephemeral=True)]), process="a")
        calls: list[float] = []
        hook = world.zk.hook_after(touches_path("/lease"), lambda _: calls.append(world.now_s))
        world.crash("a")
        world.run_for(20)
        assert hook.fired == 1
        assert len(calls) == 1


def test_callbacks_receive_every_commit_and_every_session_end() -> None:
    commits: list[tuple[object, ...]] = []
    ends: list[tuple[object, ...]] = []
    with World(2) as world:
        world.zk.on_commit(lambda *commit: commits.append(commit))
        world.zk.on_session_end(lambda *end: ends.append(end))
        client = connect_client(world, "a")
        session = client.session
        assert session is not None
        operations = (Create("/x", ephemeral=True), Check("/x", 0))
        world.run(client.commit(operations), process="a")
        assert isinstance(world.run(client.commit([Check("/x", 5)]), process="a"), Rejected)
        world.run(client.close(), process="a")
    assert [commit[1:] for commit in commits] == [(session.id, "a", operations, ("/x", None))]
    assert [end[1:] for end in ends] == [(session.id, "a", ["/x"], "its client closed it")]
    assert ends[0][0] > commits[0][0]  # type: ignore[operator]  # both are zxids


def test_operator_can_write_any_bytes_and_delete_subtrees() -> None:
    with World(2) as world:
        wakes: list[float] = []
        client = world.connect("a")(lambda: wakes.append(world.now_s))
        world.run_until(lambda: client.state is ConnectionState.CONNECTED, within_s=5)
        world.zk.write("/deep/down/here", b"\xff\x00garbage")
        world.run_for(0.1)
        assert world.run(client.get("/deep/down/here", watch=True), process="a").data == b"\xff\x00garbage"
        wakes_before = len(wakes)
        world.zk.remove("/deep")
        world.run_for(0.1)
        assert len(wakes) > wakes_before
        assert world.zk.tree.get("/deep") is None


def test_new_value_is_sometimes_readable_before_its_watch_fires() -> None:
    early = 0
    for seed in range(60):
        with World(seed) as world:
            wakes: list[float] = []
            client = world.connect("a")(lambda wakes=wakes: wakes.append(0))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            world.run_until(lambda client=client: client.state is ConnectionState.CONNECTED, within_s=5)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            world.zk.write("/x", b"0")
            world.run_for(0.1)

            async def read_again(world: World, client: SimClient, wakes: list[float]) -> int:
                early = 0
                for n in range(1, 10):
                    await client.get("/x", watch=True)
                    wakes_before = len(wakes)
                    world.zk.write("/x", b"%d" % n)
                    while (await client.get("/x")).data != b"%d" % n:
                        pass
                    early += len(wakes) == wakes_before
                    await asyncio.sleep(0.1)
                    assert len(wakes) == wakes_before + 1
                return early

            early += world.run(read_again(world, client, wakes), process="a")
    assert 0 < early < 60


@pytest.mark.parametrize("seed", SEEDS)
def test_write_through_follower_is_answered_when_paused_leader_resumes(seed: int) -> None:
    with World(seed) as world:
        client = connect_client_to_follower(world, "a", timeout_s=10.0, reply_timeout_s=100.0)
        leader = world.zk.leader
        assert leader is not None
        world.zk.pause(leader)
        world.schedule_at(world.now_s + 1.5, world.zk.resume, leader)
        assert isinstance(world.run(client.commit([Create("/x")]), process="a", within_s=3), Committed)
