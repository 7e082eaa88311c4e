"""Diagnoses of synthetic logs and of reports that quote log lines. Healthy logs have no diagnosis."""

from datetime import timedelta
from pathlib import Path

from tests.harness.explain_in_process import explain_logs
from tests.harness.log_situations import (
    JOB_ALIVE,
    JOB_OLD,
    NO_LOGS,
    OUT_OF_ORDER,
    RESET,
    RESURRECTION,
    SESSION,
    at,
    flink_line,
    healthy_log,
    stall_line,
    zookeeper_line,
)


def write_logs(directory: Path, **texts: str) -> list[Path]:
    files = []
    for name, text in texts.items():
        files.append(directory / f"{name}.log")
        files[-1].write_text(text)
    return files


def test_simultaneous_stalls_are_grouped_by_instant(tmp_path: Path) -> None:
    first, second = at("13:12:39.083"), at("13:25:14.798")
    files = write_logs(
        tmp_path,
        zk1=healthy_log(1, at("13:00:00")) + stall_line(1, first + timedelta(milliseconds=1), 30334),
        zk2=healthy_log(2, at("13:00:00")) + stall_line(2, first, 30456),
        zk3=stall_line(3, second, 51394),
        zk4=stall_line(4, second, 51162),
        zk5=stall_line(5, second, 49726),
    )
    (found,) = explain_logs(*files).as_json()["diagnoses"]
    assert found["signature"] == "zk-simultaneous-stall"
    assert found["groups"] == [
        {"onset": "2026-03-04T13:12:39.083", "servers": ["zookeeper 1", "zookeeper 2"], "spread_ms": 1},
        {"onset": "2026-03-04T13:25:14.798", "servers": ["zookeeper 3", "zookeeper 4", "zookeeper 5"], "spread_ms": 0},
    ]
    assert "shared storage" in found["advice"]
    assert len(found["evidence"]) == 5


def test_separate_stalls_are_diagnosed_as_disk_stalls(tmp_path: Path) -> None:
    files = write_logs(tmp_path, zk1=stall_line(1, at("13:00:00"), 4000), zk2=stall_line(2, at("13:05:00"), 5000))
    (found,) = explain_logs(*files).as_json()["diagnoses"]
    assert found["signature"] == "zk-disk-stall"
    assert found["start"] == "2026-03-04T13:00:00.000"
    assert found["components"] == ["zookeeper 1", "zookeeper 2"]


def test_skewed_clock_is_corrected_by_shared_sessions_and_reported(tmp_path: Path) -> None:
    """Without the correction, the stalls would not begin at the same time."""

    def opened(server: int, number: int, behind_ms: int) -> str:
        moment = at("13:00:00") + timedelta(seconds=10 * number, milliseconds=3 * server - behind_ms)
        return zookeeper_line(
            moment, server, f"CommitProcessor:{server}:LearnerSessionTracker@116", f"Committing global session 0x{number}0"
        )

    onset, behind_ms = at("13:10:00"), 4200
    files = write_logs(
        tmp_path,
        zk1="".join(opened(1, number, 0) for number in range(1, 9)) + stall_line(1, onset, 5000),
        zk2="".join(opened(2, number, behind_ms) for number in range(1, 7)) + stall_line(2, onset, 6000, -behind_ms),
    )
    answer = explain_logs(*files).as_json()
    found = {one["signature"]: one for one in answer["diagnoses"]}
    assert set(found) == {"clock-skew", "zk-simultaneous-stall"}
    assert found["clock-skew"]["title"] == "the clock of zookeeper 2 is 4.2 s behind the other clocks"
    assert found["zk-simultaneous-stall"]["groups"][0]["spread_ms"] < 10
    first, second = answer["components"]
    assert (first["clock_offset_ms"], first["clock_error_ms"]) == (0, 0)
    assert abs(second["clock_offset_ms"] - behind_ms) <= second["clock_error_ms"] < 200


def test_reconnecting_clients_are_not_mistaken_for_clock_skew(tmp_path: Path) -> None:
    server, client = "", ""
    for number, back_s in enumerate((40, 61, 95, 33, 70)):
        session = f"0x10000{number}"
        opened = at("13:00:00") + timedelta(seconds=3 * number)
        server += zookeeper_line(
            opened, 1, "CommitProcessor:1:LeaderSessionTracker@104", f"Committing global session {session}"
        )
        words = (
            f"Session establishment complete on server zk2/10.0.0.2:2181, session id = {session}, negotiated timeout = 10000"
        )
        client += flink_line(opened + timedelta(seconds=back_s), words, "org.apache.zookeeper.ClientCnxn")
        files = write_logs(tmp_path, server=server, client=client)
        assert explain_logs(*files).diagnoses == (), f"after {number + 1} sessions"


def test_quoted_report_with_times_of_day_names_the_resurrected_and_the_starved_job(tmp_path: Path) -> None:
    (file,) = write_logs(tmp_path, report=RESURRECTION)
    answer = explain_logs(file).as_json()
    found = {one["signature"]: one for one in answer["diagnoses"]}
    assert set(found) == {
        "zk-follower-partitioned",
        "leadership-lost-on-suspend",
        "job-resurrected",
        "slot-starvation-loop",
    }
    assert answer["diagnoses"][0]["signature"] == "zk-follower-partitioned", "the root"
    assert SESSION in found["leadership-lost-on-suspend"]["explanation"]
    assert JOB_OLD in found["job-resurrected"]["title"]
    assert JOB_ALIVE in found["slot-starvation-loop"]["title"]
    assert found["job-resurrected"]["chain"][0]["component"] == "zookeeper 1"
    *_, taken, starved = found["slot-starvation-loop"]["chain"]
    assert JOB_OLD in taken["event"], "a job is not starved by itself"
    assert JOB_ALIVE in starved["event"]
    assert found["job-resurrected"]["start"].startswith("2026-03-04T10:04:5"), "the day is inferred from the checkpoint"


def test_lines_quoted_out_of_order_are_sorted_by_time(tmp_path: Path) -> None:
    (file,) = write_logs(tmp_path, report=OUT_OF_ORDER)
    answer = explain_logs(file)
    (found,) = answer.as_json()["diagnoses"]
    assert found["signature"] == "zk-connection-lost"
    assert found["start"] == "2026-03-04T02:47:44.519", "fifteen seconds before the line that reports it"
    begins = [one.begin_ms for one in answer.occurrences]
    assert begins == sorted(begins)
    assert [one.kind for one in answer.occurrences] == [
        "connection-lost",
        "workers-lost",
        "client-disconnected",
        "retry-gave-up",
    ]


def test_offset_reset_is_traced_to_the_broker_across_time_zones(tmp_path: Path) -> None:
    (file,) = write_logs(tmp_path, report=RESET)
    answer = explain_logs(file).as_json()
    found = {one["signature"]: one for one in answer["diagnoses"]}
    assert {"kafka-broker-session-lost", "kafka-offset-reset"} <= set(found)
    reset = found["kafka-offset-reset"]
    assert "2340400514" in reset["explanation"] and "clicks-124" in reset["explanation"]
    assert reset["start"] == "2026-03-04T09:35:01.711"
    assert [link["component"] for link in reset["chain"][:-1]] == ["broker 2005"] * (len(reset["chain"]) - 1)
    assert any("+7 h" in note for note in answer["notes"])


def test_text_without_log_lines_is_reported(tmp_path: Path) -> None:
    (file,) = write_logs(tmp_path, report=NO_LOGS)
    answer = explain_logs(file).as_json()
    assert answer["diagnoses"] == []
    assert "no log lines" in answer["summary"]
    assert answer["counts"]["unparsed_lines"] == answer["counts"]["lines"]


def test_restarts_of_the_whole_ensemble_are_not_a_rolling_restart(tmp_path: Path) -> None:
    def started(server: int, *minutes: float) -> str:
        begin = at("13:00:00")
        words, thread = f"Starting quorum peer, myid={server}", "main:QuorumPeerMain@163"
        moments = [begin + timedelta(minutes=minute, milliseconds=300 * server) for minute in minutes]
        return "".join(zookeeper_line(moment, server, thread, words) for moment in moments)

    together = {f"zk{server}": started(server, 0, 10, 20, 200) for server in (1, 2, 3)}
    assert {one.signature for one in explain_logs(*write_logs(tmp_path, **together)).diagnoses} == {"zk-quorum-lost"}
    one_by_one = {f"zk{server}": started(server, 0, 10 + server) for server in (1, 2, 3)}
    (found,) = explain_logs(*write_logs(tmp_path, **one_by_one)).as_json()["diagnoses"]
    assert found["title"] == "3 ZooKeeper servers were restarted one after the other"
    assert found["start"] == "2026-03-04T13:11:00.300"


def test_healthy_servers_have_no_diagnosis(tmp_path: Path) -> None:
    files = write_logs(tmp_path, **{f"zk{server}": healthy_log(server, at("13:00:00")) for server in (1, 2, 3)})
    answer = explain_logs(*files).as_json()
    assert answer["diagnoses"] == []
    assert "Nothing" in answer["summary"]


def test_events_that_may_matter_are_named_if_no_signature_fits(tmp_path: Path) -> None:
    """A connection that is lost and regained fits no signature, but something was wrong."""
    moment = at("13:00:00")
    lines = [
        flink_line(
            moment + timedelta(seconds=n), f"State change: {state}", "org.apache.curator.framework.state.ConnectionStateManager"
        )
        for n, state in enumerate(("SUSPENDED", "LOST", "RECONNECTED"))
    ]
    (file,) = write_logs(tmp_path, manager="".join(lines))
    summary = explain_logs(file).summary
    assert summary == (
        "No known signature fits. Events that may matter: a client's connection to ZooKeeper is suspended; "
        "a client has no connection to ZooKeeper."
    )


def test_known_events_in_lines_without_a_known_time_are_reported(tmp_path: Path) -> None:
    (file,) = write_logs(
        tmp_path, gc="[1.2s][info][gc] x\n[12.345s][info][gc] GC(13) Pause Full (Metadata GC Threshold) 2123.4ms\n"
    )
    summary = explain_logs(file).summary
    assert "No line of the input (2 lines) begins with a time that is recognized" in summary
    assert f"1 line reports a known event, the first one at {file}:2" in summary


def test_evidence_has_correct_offsets_and_line_numbers(tmp_path: Path) -> None:
    for name, text in (("a", RESURRECTION), ("b", OUT_OF_ORDER), ("c", RESET)):
        (file,) = write_logs(tmp_path, **{name: text})
        for diagnosis in explain_logs(file).as_json()["diagnoses"]:
            for evidence in diagnosis["evidence"]:
                line = text.splitlines()[evidence["line"] - 1]
                assert evidence["text"] == line.strip()
                assert file.read_bytes()[evidence["offset"] :].startswith(line.encode())
