"""What a server's answers mean. The answers were copied from ZooKeeper 3.9.5, shortened."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.zk.session.server_health import ServerHealth, parse, read_health

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
def answering(answer: bytes | None) -> Iterator[int]:
    """A port on loopback where every connection gets this answer, or silence."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                if answer is None:
                    kept.append(connection)
                    continue
                with connection:
                    connection.recv(4)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in kept:
                connection.close()


def test_a_healthy_leader() -> None:
    assert parse("1", mntr=LEADER, srvr="") == ServerHealth("1", "leader", 14, 21, ())


def test_a_leader_misses_a_follower() -> None:
    health = parse("1", mntr=LEADER.replace("followers\t2", "followers\t1"), srvr="")
    assert health.problems == ("only 1 of its 2 followers are in sync with it",)


def test_a_slow_disk() -> None:
    health = parse("1", mntr=LEADER.replace("fsynctime\t21", "fsynctime\t5012"), srvr="")
    assert health.mode == "leader"
    assert health.fsync_ms_max == 5012
    assert health.problems == ("its disk is slow: since it started, an fsync took 5012 ms",)


def test_a_follower_counts_no_followers_and_unknown_figures_stay_unknown() -> None:
    mntr = "zk_server_state\tfollower\nzk_quorum_size\t3\nzk_max_latency\tlots\n"
    assert parse("2", mntr=mntr, srvr="") == ServerHealth("2", "follower", None, None, ())


def test_a_server_without_a_quorum_is_not_served_by() -> None:
    health = parse("2", mntr=NOT_SERVING, srvr="")
    assert health.mode == "unreachable"
    assert not health.serving
    assert health.problems == ("it runs but serves no requests: it has no quorum, or is still starting",)


def test_a_read_only_server_does_not_count_as_serving() -> None:
    health = parse("2", mntr="zk_server_state\tread-only\n", srvr="")
    assert health.mode == "unreachable"
    assert health.problems == ("it says that it is 'read-only', and serves no writes",)


def test_without_mntr_the_mode_comes_from_srvr() -> None:
    health = parse("3", mntr=NOT_LISTED, srvr=SRVR)
    assert (health.mode, health.latency_ms_max, health.fsync_ms_max) == ("follower", 14, None)
    assert health.problems == ("its disk and its followers cannot be watched: add mntr to its 4lw.commands.whitelist",)


def test_without_either_word_the_remedy_is_said() -> None:
    health = parse("3", mntr=NOT_LISTED, srvr=NOT_LISTED.replace("mntr", "srvr"))
    assert health.mode == "unreachable"
    assert health.problems == ("it answers neither mntr nor srvr: add both to its 4lw.commands.whitelist",)


def test_something_that_is_not_zookeeper() -> None:
    for answer in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\x00zk_"):
        with answering(answer) as port:
            health = read_health("1", "127.0.0.1", port, timeout_s=60)
        assert health.problems == ("what answers there is not a ZooKeeper server, or it wants TLS",)


def test_an_answer_is_read_to_its_end() -> None:
    with answering(LEADER.encode()) as port:
        assert read_health("1", "127.0.0.1", port, timeout_s=60).mode == "leader"


def test_a_silent_port_is_given_up_at_the_deadline() -> None:
    with answering(None) as port:
        health = read_health("1", "127.0.0.1", port, timeout_s=0.2)
    assert health.problems == (f"127.0.0.1:{port} gave no answer within 0.2 s",)


def test_a_closed_port_and_an_unknown_host_say_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    health = read_health("1", "127.0.0.1", port, timeout_s=60)
    assert health.problems == (f"127.0.0.1:{port} cannot be reached: Connection refused",)
    assert read_health("1", "no-such-host.invalid", 1, timeout_s=60).mode == "unreachable"
