"""Three real servers: they elect, lose members, freeze and stall."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from holdfast.zk.embedded import Ensemble, Server
from tests.harness.waiting import eventually

SLOW_FSYNC_S = 1.3
"""Over ZooKeeper's threshold for a warning, which is one second."""


def leader_of(ensemble: Ensemble) -> Server | None:
    leaders = [server for server in ensemble.servers if server.running and server.health().mode == "leader"]
    return leaders[0] if len(leaders) == 1 else None


def follower_of(ensemble: Ensemble) -> Server:
    leader = leader_of(ensemble)
    return next(server for server in ensemble.servers if server is not leader)


def missed(leader: Server) -> str:
    """What the leader says about its followers, if anything. Other problems, such as a slow disk, may be real."""
    return "".join(problem for problem in leader.health().problems if "in sync" in problem)


@contextmanager
def client(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect, timeout=10.0)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_three_servers_elect_one_leader(hurt: Ensemble) -> None:
    modes = [server.health().mode for server in hurt.servers]
    assert sorted(modes) == ["follower", "follower", "leader"]
    leader = leader_of(hurt)
    assert leader is not None
    eventually(lambda: not missed(leader), within_s=20, what="the leader has both its followers")


def test_a_killed_follower_is_missed_by_its_leader_and_comes_back_on_its_own_port(hurt: Ensemble) -> None:
    leader, follower = leader_of(hurt), follower_of(hurt)
    assert leader is not None
    pid, port = follower.pid, follower.client_port
    follower.kill()
    assert not follower.running
    assert follower.exit_hint() == "it was ended by SIGKILL"
    assert follower.health().mode == "unreachable"
    problem = eventually(lambda: missed(leader), within_s=20, what="the leader says that a follower is missing")
    assert problem == "only 1 of its 2 followers are in sync with it"
    follower.start()
    hurt.wait_ready(60)
    assert follower.client_port == port
    assert follower.pid != pid
    eventually(lambda: not missed(leader), within_s=20, what="the leader has both its followers again")


def test_a_killed_leader_is_replaced_and_follows_when_it_returns(hurt: Ensemble) -> None:
    old = leader_of(hurt)
    assert old is not None
    old.kill()
    new = eventually(lambda: leader_of(hurt), within_s=30, what="another server leads")
    assert new is not old
    old.start()
    hurt.wait_ready(60)
    assert old.health().mode == "follower"


def test_a_paused_server_is_alive_but_silent_until_it_is_resumed(hurt: Ensemble) -> None:
    follower = follower_of(hurt)
    follower.pause()
    assert follower.running
    health = follower.health(timeout_s=0.5)
    assert health.mode == "unreachable"
    assert health.problems == (f"127.0.0.1:{follower.client_port} gave no answer within 0.5 s",)
    follower.resume()
    hurt.wait_ready(60)


def test_a_paused_server_can_be_stopped_and_killed(hurt: Ensemble) -> None:
    follower = follower_of(hurt)
    follower.pause()
    follower.stop()
    assert not follower.running
    assert follower.pid is None
    # It was let go on to end by itself; killing it is for one that does not.
    assert follower.exit_hint() == "it was ended by SIGTERM"
    follower.start()
    follower.pause()
    follower.kill()
    assert not follower.running
    assert follower.exit_hint() == "it was ended by SIGKILL"


def test_a_stalled_disk_is_logged_and_shows_in_the_health_of_that_server(hurt: Ensemble) -> None:
    stalled = follower_of(hurt)
    if not stalled.settings.faults:
        pytest.skip("there is no C compiler")
    with client(hurt.connect) as zookeeper:

        def slow_disk_seen() -> bool:
            with stalled.disk_stalled():
                # Acknowledged by the two others, so this returns while the stalled server still waits for its disk.
                zookeeper.create("/stall-", sequence=True)
                time.sleep(SLOW_FSYNC_S)
            return (stalled.health().fsync_ms_max or 0) > 1000

        # More than one round only if the write reached that server too late.
        eventually(slow_disk_seen, within_s=30, what="an fsync over a second in mntr")
    (problem,) = stalled.health().problems
    assert problem.startswith("its disk is slow: since it started, an fsync took ")
    warning = "fsync-ing the write ahead log in SyncThread:"
    eventually(lambda: warning in stalled.log.read_text(), within_s=10, what="the warning in the server's log")
    # Its worst fsync is remembered until it ends, so that server goes, for the tests that come after.
    stalled.stop()
