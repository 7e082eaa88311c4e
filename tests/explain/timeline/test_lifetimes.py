"""From when to when something was, and what came in bursts."""

from datetime import timedelta
from pathlib import Path

from tests.explain.situations import at, flink, kafka, quiet, zookeeper
from tests.harness.explain_in_process import asked

SESSION = "0x1000041c2fb0001"
JOB = "aa11" * 8


def test_a_session_lives_from_where_it_is_opened_to_where_it_expires_and_belongs_to_its_client(tmp_path: Path) -> None:
    opened = f"Established session {SESSION} with negotiated timeout 10000 for client /10.0.0.7:5000"
    expired = f"Expiring session {SESSION}, timeout of 10000ms exceeded"
    connected = (
        f"Session establishment complete on server zk1/10.0.0.1:2181, session id = {SESSION}, negotiated timeout = 10000"
    )
    (tmp_path / "zk1.log").write_text(
        zookeeper(at("13:00:00.010"), 1, "CommitProcessor:1:ZooKeeperServer@1", opened)
        + zookeeper(at("13:20:00.000"), 1, "SessionTracker:ZooKeeperServer@1", expired)
    )
    (tmp_path / "broker.log").write_text(kafka(at("13:00:00.012"), connected, "org.apache.zookeeper.ClientCnxn"))
    (life,) = asked(tmp_path / "zk1.log", tmp_path / "broker.log").json()["lives"]
    assert (life["kind"], life["name"], life["component"]) == ("session", SESSION, "broker")
    assert (life["start"], life["end"], life["ended"]) == ("2026-03-04T13:00:00.010", "2026-03-04T13:20:00.000", "it expired")
    assert [one["line"] for one in life["evidence"]] == [1, 2]


def test_a_leadership_lives_until_it_is_given_up_and_a_job_counts_its_restarts(tmp_path: Path) -> None:
    lines = [
        ("13:00:00", "ResourceManager pekko.tcp://flink@a:1/user/rpc/rm was granted leadership with fencing token 1"),
        ("13:00:05", f"Job clicks ({JOB}) switched from state RESTARTING to RUNNING."),
        ("13:05:00", f"Job clicks ({JOB}) switched from state RUNNING to RESTARTING."),
        ("13:10:00", "ResourceManager pekko.tcp://flink@a:1/user/rpc/rm was revoked leadership. Clearing fencing token."),
    ]
    text = "".join(flink(at(clock), message, "org.apache.flink.runtime.Some") for clock, message in lines)
    (tmp_path / "jm.log").write_text(text)
    found = {life["kind"]: life for life in asked(tmp_path / "jm.log").json()["lives"]}
    assert (found["leadership"]["start"], found["leadership"]["end"]) == ("2026-03-04T13:00:00.000", "2026-03-04T13:10:00.000")
    assert found["leadership"]["ended"] == "it was given up"
    assert (found["job"]["name"], found["job"]["end"]) == (JOB, None)


def test_much_at_once_is_a_burst_and_what_is_always_so_is_none(tmp_path: Path) -> None:
    begin = at("13:05:00")
    expired = "".join(
        zookeeper(begin + timedelta(milliseconds=40 * number), 1, "SessionTracker:ZooKeeperServer@1",
                  f"Expiring session 0x7000000000{number:04x}, timeout of 10000ms exceeded")
        for number in range(75)
    )  # fmt: skip
    (tmp_path / "zk1.log").write_text(quiet(1, at("13:00:00"), minutes=5) + expired)
    (burst,) = asked(tmp_path / "zk1.log").json()["bursts"]
    assert (burst["event"], burst["component"], burst["count"]) == ("zk-session-expired", "zookeeper 1", 75)
    assert (burst["start"], burst["end"]) == ("2026-03-04T13:05:00.000", "2026-03-04T13:05:01.960")
    assert asked_of_a_long_day(tmp_path) == []


def asked_of_a_long_day(directory: Path) -> list[object]:
    """Once a second for ten minutes."""
    text = "".join(
        zookeeper(at("15:00:00") + timedelta(seconds=second), 2, "CommitProcessor:2:ZooKeeperServer@1",
                  f"Established session 0x8000000000{second:04x} with negotiated timeout 10000 for client /10.0.0.7:5000")
        for second in range(600)
    )  # fmt: skip
    (directory / "zk2.log").write_text(text)
    found: list[object] = asked(directory / "zk2.log").json()["bursts"]
    return found
