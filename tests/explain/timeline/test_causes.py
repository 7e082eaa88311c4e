"""What is no cause, though it came before."""

from datetime import timedelta
from pathlib import Path

from tests.explain.situations import SESSION, at, flink, zookeeper
from tests.harness.explain_in_process import asked

BEGIN = at("13:00:00")
CLIENT = "org.apache.zookeeper.ClientCnxn"
PEER = "QuorumPeer[myid=1](plain=127.0.0.1:2181)(secure=disabled):QuorumPeer@1470"


def connected(after_s: float) -> str:
    words = f"Session establishment complete on server zk2/10.0.0.2:2181, session id = {SESSION}, negotiated timeout = 10000"
    return flink(BEGIN + timedelta(seconds=after_s), words, CLIENT)


def suspended_and_revoked(after_s: float) -> str:
    lost, moment = "Unable to read additional data from server sessionid", BEGIN + timedelta(seconds=after_s)
    return (
        flink(moment, f"{lost} {SESSION}, likely server has closed socket, closing socket connection", CLIENT)
        + flink(moment + timedelta(milliseconds=100), "State change: SUSPENDED", "org.apache.curator.ConnectionStateManager")
        + flink(moment + timedelta(milliseconds=120), "JobMaster was revoked leadership", "org.apache.flink.Runner")
    )


def looking(after_s: float) -> str:
    return zookeeper(BEGIN + timedelta(seconds=after_s), 1, PEER, "LOOKING")


def started(after_s: float) -> str:
    return zookeeper(BEGIN + timedelta(seconds=after_s), 1, "main:QuorumPeerMain@152", "Starting quorum peer, myid=1")


def beginning(directory: Path, *, server: str, client: str) -> str:
    """What kind of event the loss of leadership is traced to."""
    for name, text in (("server", server), ("client", client)):
        (directory / f"{name}.log").write_text(text)
    (found,) = asked(directory).diagnoses
    assert found.signature == "leadership-lost-on-suspend"
    return found.chain[0].happening.kind


def test_a_server_without_a_leader_is_why_its_clients_are_disconnected(tmp_path: Path) -> None:
    assert beginning(tmp_path, server=looking(10), client=connected(0) + suspended_and_revoked(12)) == "zk-looking"


def test_what_was_before_a_client_was_connected_did_not_disconnect_it(tmp_path: Path) -> None:
    client = connected(0) + connected(11) + suspended_and_revoked(12)
    assert beginning(tmp_path, server=looking(10), client=client) == "client-disconnected"


def test_a_server_that_looks_for_a_leader_because_it_was_just_started_had_no_clients(tmp_path: Path) -> None:
    server = started(8) + looking(10)
    assert beginning(tmp_path, server=server, client=connected(0) + suspended_and_revoked(12)) == "client-disconnected"
