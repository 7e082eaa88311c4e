"""`holdfast explain` as a command, with Spark: it gives the same answer as the analysis in one process."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from holdfast.explain.report.html.data import page_data
from tests.explain.report.test_html import embedded_data
from tests.harness.cluster.process_observer import child_pids, list_pids, read_command, read_environment
from tests.harness.explain_in_process import explain_logs
from tests.harness.log_situations import NO_LOGS, RESET, at, healthy_log, stall_line
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow]


EXPLAIN = [sys.executable, "-P", "-m", "holdfast.cli.main", "explain"]


def explain(*arguments: str | Path, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*EXPLAIN, *map(str, arguments)], input=stdin, capture_output=True, timeout=120, check=False)


def test_command_gives_the_same_answer_as_in_process_analysis_in_all_formats(tmp_path: Path) -> None:
    """Inputs are a directory, a compressed file and a glob pattern; outputs are text, JSON, HTML, Perfetto and Parquet."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "zk1.log").write_text(healthy_log(1, at("13:00:00")) + stall_line(1, at("13:12:39.083"), 30334))
    (logs / "zk2.log.gz").write_bytes(gzip.compress(stall_line(2, at("13:12:39.084"), 30456).encode()))
    (tmp_path / "report.txt").write_text(RESET)
    answer, events, trace = tmp_path / "answer.json", tmp_path / "events.parquet", tmp_path / "trace.json"
    html = tmp_path / "page.html"
    written = "--json", answer, "--events", events, "--perfetto", trace, "--html", html
    done = explain(logs, tmp_path / "rep*.txt", *written)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b"", "no output of Java"
    expected = explain_logs(logs, tmp_path / "report.txt")
    assert json.loads(answer.read_text()) == expected.as_json()
    assert "the disks of several ZooKeeper servers stalled at the same time" in done.stdout.decode()
    assert f"{logs / 'zk1.log'}:21" in done.stdout.decode(), "position of the evidence"
    table = pyarrow.parquet.read_table(events)
    assert table.num_rows == len(expected.scan.events)
    assert "zk-fsync-slow" in table["kind"].to_pylist()
    drawn = json.loads(trace.read_text())["traceEvents"]
    stalls = [(one["ts"], one["dur"]) for one in drawn if one.get("cat") == "zk-fsync-slow"]
    assert embedded_data(html.read_text())["diagnoses"] == page_data(expected)["diagnoses"]
    assert sorted(stalls) == [(1772629959083000, 30334000), (1772629959084000, 30456000)]
    again = explain(tmp_path / "report.txt", *written)
    assert again.returncode == 0, "an earlier answer may be overwritten"
    assert json.loads(answer.read_text()) == explain_logs(tmp_path / "report.txt").as_json()


def test_report_is_read_from_standard_input(tmp_path: Path) -> None:
    done = explain("-", "--json", "-", stdin=RESET.encode())
    found = json.loads(done.stdout)
    assert {one["signature"] for one in found["diagnoses"]} >= {"kafka-offset-reset"}
    assert found["diagnoses"][0]["evidence"][0]["file"] == "standard input"


def test_text_without_log_lines_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(NO_LOGS)
    done = explain(tmp_path / "x.txt")
    assert done.returncode == 0
    assert "There are no log lines" in done.stdout.decode()


def test_invalid_arguments_are_refused_in_one_sentence_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "own.toml").write_text("[[event]]")
    (tmp_path / "x.log").write_text("x")
    for arguments in (
        (tmp_path / "none.log",),
        (tmp_path / "empty",),
        (tmp_path / "x.log", "--library", tmp_path / "own.toml"),
        (tmp_path / "x.log", "--library", tmp_path / "none.toml"),
        (tmp_path / "x.log", "--master", "spark://127.0.0.1:1"),
        (tmp_path / "x.log", "--json", tmp_path / "none" / "x.json"),
    ):
        done = explain(*arguments)
        assert done.returncode == 1
        assert done.stderr.decode().startswith("holdfast: ")
        assert b"Traceback" not in done.stderr
    assert explain(tmp_path / "x.log", "--conf", "nonsense").returncode == 2


@pytest.mark.parametrize("option", ["--json", "--html", "--events", "--perfetto"])
def test_log_given_as_output_file_is_not_overwritten(tmp_path: Path, option: str) -> None:
    (tmp_path / "1.log").write_text(healthy_log(1, at("13:00:00")))
    (tmp_path / "2.log").write_text(healthy_log(2, at("13:00:00")))
    done = explain(option, tmp_path / "1.log", tmp_path / "2.log")
    assert done.returncode == 1
    assert f"{tmp_path / '1.log'} already exists and was not written by {option}" in done.stderr.decode()
    assert (tmp_path / "1.log").read_text() == healthy_log(1, at("13:00:00"))


@pytest.mark.parametrize("stage", ["bash", "java"])
def test_ctrl_c_while_spark_starts_leaves_no_process_and_no_file(tmp_path: Path, stage: str) -> None:
    """Scripts start Java. PySpark forgets a JVM that has not reported its port when it is interrupted."""
    (tmp_path / "x.log").write_text(healthy_log(1, at("13:00:00")))
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def own_processes() -> list[int]:
        return [pid for pid in list_pids() if read_environment(pid).get("TMPDIR") == str(temporary)]

    with subprocess.Popen(
        [*EXPLAIN, str(tmp_path / "x.log")],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        wait_until(lambda: any(stage in read_command(pid)[0] for pid in child_pids(process.pid)), 60, stage)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (stdout, stderr.strip()) == (b"", b"")
    assert own_processes() == []
    assert list(temporary.iterdir()) == []
