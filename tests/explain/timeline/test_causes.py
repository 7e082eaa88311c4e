"""Cause chains: which earlier events are causes and which are not."""

from datetime import timedelta
from pathlib import Path

from tests.harness.explain_in_process import explain_logs
from tests.harness.log_situations import SESSION, at, flink_line, zookeeper_line

BEGIN = at("13:00:00")
CLIENT = "org.apache.zookeeper.ClientCnxn"
PEER = "QuorumPeer[myid=1](plain=127.0.0.1:2181)(secure=disabled):QuorumPeer@1470"


def connected_line(after_s: float) -> str:
    message = f"Session establishment complete on server zk2/10.0.0.2:2181, session id = {SESSION}, negotiated timeout = 10000"
    return flink_line(BEGIN + timedelta(seconds=after_s), message, CLIENT)


def suspended_and_revoked(after_s: float) -> str:
    lost, moment = "Unable to read additional data from server sessionid", BEGIN + timedelta(seconds=after_s)
    return (
        flink_line(moment, f"{lost} {SESSION}, likely server has closed socket, closing socket connection", CLIENT)
        + flink_line(
            moment + timedelta(milliseconds=100), "State change: SUSPENDED", "org.apache.curator.ConnectionStateManager"
        )
        + flink_line(moment + timedelta(milliseconds=120), "JobMaster was revoked leadership", "org.apache.flink.Runner")
    )


def looking(after_s: float) -> str:
    return zookeeper_line(BEGIN + timedelta(seconds=after_s), 1, PEER, "LOOKING")


def started_line(after_s: float) -> str:
    return zookeeper_line(BEGIN + timedelta(seconds=after_s), 1, "main:QuorumPeerMain@152", "Starting quorum peer, myid=1")


def first_cause(directory: Path, *, server: str, client: str) -> str:
    """Return the kind of the event to which the loss of leadership is traced."""
    for name, text in (("server", server), ("client", client)):
        (directory / f"{name}.log").write_text(text)
    (found,) = explain_logs(directory).diagnoses
    assert found.signature == "leadership-lost-on-suspend"
    return found.chain[0].occurrence.kind


def test_server_without_a_leader_causes_the_disconnect_of_its_clients(tmp_path: Path) -> None:
    assert first_cause(tmp_path, server=looking(10), client=connected_line(0) + suspended_and_revoked(12)) == "zk-looking"


def test_event_before_the_connection_does_not_cause_the_disconnect(tmp_path: Path) -> None:
    client = connected_line(0) + connected_line(11) + suspended_and_revoked(12)
    assert first_cause(tmp_path, server=looking(10), client=client) == "client-disconnected"


def test_election_of_a_server_that_just_started_does_not_cause_the_disconnect(tmp_path: Path) -> None:
    server = started_line(8) + looking(10)
    assert first_cause(tmp_path, server=server, client=connected_line(0) + suspended_and_revoked(12)) == "client-disconnected"
