"""Lifetimes and bursts."""

from datetime import timedelta
from pathlib import Path

from tests.harness.explain_in_process import explain_logs
from tests.harness.log_situations import at, flink_line, healthy_log, kafka_line, zookeeper_line

SESSION = "0x1000041c2fb0001"
JOB = "aa11" * 8


def test_session_lifetime_belongs_to_its_client(tmp_path: Path) -> None:
    opened = f"Established session {SESSION} with negotiated timeout 10000 for client /10.0.0.7:5000"
    expired = f"Expiring session {SESSION}, timeout of 10000ms exceeded"
    connected = (
        f"Session establishment complete on server zk1/10.0.0.1:2181, session id = {SESSION}, negotiated timeout = 10000"
    )
    (tmp_path / "zk1.log").write_text(
        zookeeper_line(at("13:00:00.010"), 1, "CommitProcessor:1:ZooKeeperServer@1", opened)
        + zookeeper_line(at("13:20:00.000"), 1, "SessionTracker:ZooKeeperServer@1", expired)
    )
    (tmp_path / "broker.log").write_text(kafka_line(at("13:00:00.012"), connected, "org.apache.zookeeper.ClientCnxn"))
    (lifetime,) = explain_logs(tmp_path / "zk1.log", tmp_path / "broker.log").as_json()["lifetimes"]
    assert (lifetime["kind"], lifetime["name"], lifetime["component"]) == ("session", SESSION, "broker")
    assert (lifetime["start"], lifetime["end"], lifetime["ended"]) == (
        "2026-03-04T13:00:00.010",
        "2026-03-04T13:20:00.000",
        "it expired",
    )
    assert [one["line"] for one in lifetime["evidence"]] == [1, 2]


def test_lifetimes_of_leadership_and_job(tmp_path: Path) -> None:
    lines = [
        ("13:00:00", "ResourceManager pekko.tcp://flink@a:1/user/rpc/rm was granted leadership with fencing token 1"),
        ("13:00:05", f"Job clicks ({JOB}) switched from state RESTARTING to RUNNING."),
        ("13:05:00", f"Job clicks ({JOB}) switched from state RUNNING to RESTARTING."),
        ("13:10:00", "ResourceManager pekko.tcp://flink@a:1/user/rpc/rm was revoked leadership. Clearing fencing token."),
    ]
    text = "".join(flink_line(at(clock), message, "org.apache.flink.runtime.Some") for clock, message in lines)
    (tmp_path / "jm.log").write_text(text)
    found = {lifetime["kind"]: lifetime for lifetime in explain_logs(tmp_path / "jm.log").as_json()["lifetimes"]}
    assert (found["leadership"]["start"], found["leadership"]["end"]) == ("2026-03-04T13:00:00.000", "2026-03-04T13:10:00.000")
    assert found["leadership"]["ended"] == "it ended"
    assert (found["job"]["name"], found["job"]["end"]) == (JOB, None)


def test_many_events_at_once_are_a_burst_and_steady_events_are_not(tmp_path: Path) -> None:
    begin = at("13:05:00")
    expired = "".join(
        zookeeper_line(begin + timedelta(milliseconds=40 * number), 1, "SessionTracker:ZooKeeperServer@1",
                  f"Expiring session 0x7000000000{number:04x}, timeout of 10000ms exceeded")
        for number in range(75)
    )  # fmt: skip  # one item per line is harder to read
    (tmp_path / "zk1.log").write_text(healthy_log(1, at("13:00:00"), minutes=5) + expired)
    (burst,) = explain_logs(tmp_path / "zk1.log").as_json()["bursts"]
    assert (burst["event"], burst["component"], burst["count"]) == ("zk-session-expired", "zookeeper 1", 75)
    assert (burst["start"], burst["end"]) == ("2026-03-04T13:05:00.000", "2026-03-04T13:05:01.960")
    assert bursts_of_steady_events(tmp_path) == []


def bursts_of_steady_events(directory: Path) -> list[object]:
    """Return the bursts of a log with one event per second for ten minutes."""
    text = "".join(
        zookeeper_line(at("15:00:00") + timedelta(seconds=second), 2, "CommitProcessor:2:ZooKeeperServer@1",
                  f"Established session 0x8000000000{second:04x} with negotiated timeout 10000 for client /10.0.0.7:5000")
        for second in range(600)
    )  # fmt: skip  # one item per line is harder to read
    (directory / "zk2.log").write_text(text)
    found: list[object] = explain_logs(directory / "zk2.log").as_json()["bursts"]
    return found
