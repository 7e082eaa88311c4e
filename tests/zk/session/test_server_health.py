"""Health of a server, parsed from its replies. The replies are shortened copies from ZooKeeper 3.9.5."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.zk.session.server_health import ServerHealth, parse_health, read_health

LEADER = """\
zk_version\t3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
zk_server_state\tleader
zk_peer_state\tleading - broadcast
zk_synced_followers\t2
zk_synced_non_voting_followers\t0
zk_synced_observers\t0
zk_avg_latency\t0.75
zk_max_latency\t14
zk_learners\t2
zk_quorum_size\t3
zk_avg_fsynctime\t3.5
zk_min_fsynctime\t0
zk_max_fsynctime\t21
zk_cnt_fsynctime\t4
"""
SRVR = """\
Zookeeper version: 3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
Latency min/avg/max: 0/0.75/14
Received: 2
Sent: 1
Connections: 1
Outstanding: 0
Zxid: 0x100000000
Mode: follower
Node count: 5
"""
NOT_LISTED = "mntr is not executed because it is not in the whitelist.\n"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"


@contextmanager
def fake_server(reply: bytes | None) -> Iterator[int]:
    """Listen on a loopback port, which is yielded. Every connection gets this reply, or none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                if reply is None:
                    silent.append(connection)
                    continue
                with connection:
                    connection.recv(4)
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in silent:
                connection.close()


def test_healthy_leader_has_no_problems() -> None:
    assert parse_health("1", mntr=LEADER, srvr="") == ServerHealth("1", "leader", 14, 21, ())


def test_leader_without_a_synced_follower_has_a_problem() -> None:
    health = parse_health("1", mntr=LEADER.replace("followers\t2", "followers\t1"), srvr="")
    assert health.problems == ("only 1 of 2 followers are in sync with this leader",)


def test_slow_fsync_is_a_problem() -> None:
    health = parse_health("1", mntr=LEADER.replace("fsynctime\t21", "fsynctime\t5012"), srvr="")
    assert health.mode == "leader"
    assert health.fsync_ms_max == 5012
    assert health.problems == ("the disk is slow: an fsync has taken 5012 ms since the server started",)


def test_follower_reports_no_followers_and_unparsable_figures_are_none() -> None:
    mntr = "zk_server_state\tfollower\nzk_quorum_size\t3\nzk_max_latency\tlots\n"
    assert parse_health("2", mntr=mntr, srvr="") == ServerHealth("2", "follower", None, None, ())


def test_server_without_a_quorum_is_not_serving() -> None:
    health = parse_health("2", mntr=NOT_SERVING, srvr="")
    assert health.mode == "unreachable"
    assert not health.serving
    assert health.problems == ("the server runs but does not serve requests: it has no quorum or is still starting",)


def test_read_only_server_is_not_serving() -> None:
    health = parse_health("2", mntr="zk_server_state\tread-only\n", srvr="")
    assert health.mode == "unreachable"
    assert health.problems == ("the server is in state 'read-only', which does not serve writes",)


def test_mode_is_read_from_srvr_if_mntr_is_not_allowed() -> None:
    health = parse_health("3", mntr=NOT_LISTED, srvr=SRVR)
    assert (health.mode, health.latency_ms_max, health.fsync_ms_max) == ("follower", 14, None)
    assert health.problems == ("fsync times and followers are unknown: add mntr to the server's 4lw.commands.whitelist",)


def test_problem_names_the_setting_if_neither_command_is_allowed() -> None:
    health = parse_health("3", mntr=NOT_LISTED, srvr=NOT_LISTED.replace("mntr", "srvr"))
    assert health.mode == "unreachable"
    assert health.problems == ("the server allows neither mntr nor srvr: add both to its 4lw.commands.whitelist",)


def test_reply_of_another_program_is_a_problem() -> None:
    for reply in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\x00zk_"):
        with fake_server(reply) as port:
            health = read_health("1", "127.0.0.1", port, timeout_s=60)
        assert health.problems == ("the reply is not from a ZooKeeper server, or the server requires TLS",)


def test_reply_is_read_to_its_end() -> None:
    with fake_server(LEADER.encode()) as port:
        assert read_health("1", "127.0.0.1", port, timeout_s=60).mode == "leader"


def test_query_of_a_silent_port_ends_at_the_deadline() -> None:
    with fake_server(None) as port:
        health = read_health("1", "127.0.0.1", port, timeout_s=0.2)
    assert health.problems == (f"127.0.0.1:{port} did not answer within 0.2 s",)


def test_closed_port_and_unknown_host_are_reported_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    health = read_health("1", "127.0.0.1", port, timeout_s=60)
    assert health.problems == (f"127.0.0.1:{port} cannot be reached: Connection refused",)
    assert read_health("1", "no-such-host.invalid", 1, timeout_s=60).mode == "unreachable"
