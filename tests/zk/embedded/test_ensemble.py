"""Three real servers: election, killed members, pauses and stalled disks."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from holdfast.zk.embedded import EmbeddedEnsemble, ZooKeeperServer
from tests.harness.waiting import wait_until

SLOW_FSYNC_S = 1.3
"""Longer than one second, ZooKeeper's threshold for a warning."""


def leader_of(ensemble: EmbeddedEnsemble) -> ZooKeeperServer | None:
    leaders = [server for server in ensemble.servers if server.running and server.health().mode == "leader"]
    return leaders[0] if len(leaders) == 1 else None


def follower_of(ensemble: EmbeddedEnsemble) -> ZooKeeperServer:
    leader = leader_of(ensemble)
    return next(server for server in ensemble.servers if server is not leader)


def follower_problem(leader: ZooKeeperServer) -> str:
    """Return the leader's problem with its followers, if any. Ignores other problems: the disk may really be slow."""
    return "".join(problem for problem in leader.health().problems if "in sync" in problem)


@contextmanager
def kazoo_client(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect, timeout=10.0)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.mark.slow
def test_three_servers_elect_one_leader(repaired_ensemble: EmbeddedEnsemble) -> None:
    modes = [server.health().mode for server in repaired_ensemble.servers]
    assert sorted(modes) == ["follower", "follower", "leader"]
    leader = leader_of(repaired_ensemble)
    assert leader is not None
    wait_until(lambda: not follower_problem(leader), within_s=20, what="the leader has both its followers")


@pytest.mark.slow
def test_killed_follower_is_reported_by_its_leader_and_restarts_on_the_same_port(repaired_ensemble: EmbeddedEnsemble) -> None:
    leader, follower = leader_of(repaired_ensemble), follower_of(repaired_ensemble)
    assert leader is not None
    pid, port = follower.pid, follower.client_port
    follower.kill()
    assert not follower.running
    assert follower.exit_reason() == "it was terminated by SIGKILL"
    assert follower.health().mode == "unreachable"
    problem = wait_until(lambda: follower_problem(leader), within_s=20, what="the leader reports a missing follower")
    assert problem == "only 1 of 2 followers are in sync with this leader"
    follower.start()
    repaired_ensemble.wait_ready(60)
    assert follower.client_port == port
    assert follower.pid != pid
    wait_until(lambda: not follower_problem(leader), within_s=20, what="the leader has both its followers again")


@pytest.mark.slow
def test_killed_leader_is_replaced_and_becomes_a_follower_after_a_restart(repaired_ensemble: EmbeddedEnsemble) -> None:
    old = leader_of(repaired_ensemble)
    assert old is not None
    old.kill()
    new = wait_until(lambda: leader_of(repaired_ensemble), within_s=30, what="another server leads")
    assert new is not old
    old.start()
    repaired_ensemble.wait_ready(60)
    assert old.health().mode == "follower"


@pytest.mark.slow
def test_paused_server_runs_but_does_not_answer_until_resumed(repaired_ensemble: EmbeddedEnsemble) -> None:
    follower = follower_of(repaired_ensemble)
    follower.pause()
    assert follower.running
    health = follower.health(timeout_s=0.5)
    assert health.mode == "unreachable"
    assert health.problems == (f"127.0.0.1:{follower.client_port} did not answer within 0.5 s",)
    follower.resume()
    repaired_ensemble.wait_ready(60)


@pytest.mark.slow
def test_paused_server_can_be_stopped_and_killed(repaired_ensemble: EmbeddedEnsemble) -> None:
    follower = follower_of(repaired_ensemble)
    follower.pause()
    follower.stop()
    assert not follower.running
    assert follower.pid is None
    # `stop` resumes the server, so that SIGTERM ends it.
    assert follower.exit_reason() == "it was terminated by SIGTERM"
    follower.start()
    follower.pause()
    follower.kill()
    assert not follower.running
    assert follower.exit_reason() == "it was terminated by SIGKILL"


@pytest.mark.slow
def test_stalled_disk_is_logged_and_reported_in_the_health(repaired_ensemble: EmbeddedEnsemble) -> None:
    stalled = follower_of(repaired_ensemble)
    with kazoo_client(repaired_ensemble.connect_string) as zookeeper:

        def stall_is_reported() -> bool:
            with stalled.stall_disk_within():
                # The other two servers acknowledge this, so it returns while the stalled server waits for its disk.
                zookeeper.create("/stall-", sequence=True)
                time.sleep(SLOW_FSYNC_S)
            return (stalled.health().fsync_ms_max or 0) > 1000

        # Repeated only if the write reached that server after the stall.
        wait_until(stall_is_reported, within_s=30, what="an fsync over a second in mntr")
    (problem,) = stalled.health().problems
    assert problem.startswith("the disk is slow: an fsync has taken ")
    warning = "fsync-ing the write ahead log in SyncThread:"
    wait_until(lambda: warning in stalled.log.read_text(), within_s=10, what="the warning in the server's log")
    # The server reports its slowest fsync until it ends. Stop it, so that later tests get a healthy one.
    stalled.stop()
