"""`holdfast explain` as people call it: with Spark, and what Spark adds is nothing but speed."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from holdfast.explain.report.html.data import data
from tests.explain.report.test_html import told_by
from tests.explain.situations import NO_LOGS, RESET, at, quiet, stall
from tests.harness.cluster.process_witness import children_of, command_of, environment_of, pids
from tests.harness.explain_in_process import asked
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]


EXPLAIN = [sys.executable, "-P", "-m", "holdfast.cli.main", "explain"]


def explain(*arguments: str | Path, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*EXPLAIN, *map(str, arguments)], input=given, capture_output=True, timeout=120, check=False)


def test_files_of_all_kinds_give_the_answer_that_they_give_without_spark(tmp_path: Path) -> None:
    """A directory, a compressed file and one beside it; told to people, to scripts and as a table."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "zk1.log").write_text(quiet(1, at("13:00:00")) + stall(1, at("13:12:39.083"), 30334))
    (logs / "zk2.log.gz").write_bytes(gzip.compress(stall(2, at("13:12:39.084"), 30456).encode()))
    (tmp_path / "report.txt").write_text(RESET)
    answer, events, trace = tmp_path / "answer.json", tmp_path / "events.parquet", tmp_path / "trace.json"
    html = tmp_path / "page.html"
    written = "--json", answer, "--events", events, "--perfetto", trace, "--html", html
    done = explain(logs, tmp_path / "rep*.txt", *written)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b"", "nothing of what Java says"
    expected = asked(logs, tmp_path / "report.txt")
    assert json.loads(answer.read_text()) == expected.json()
    assert "the disks of several ZooKeeper servers stopped in the same instant" in done.stdout.decode()
    assert f"{logs / 'zk1.log'}:21" in done.stdout.decode(), "where to look"
    table = pyarrow.parquet.read_table(events)
    assert table.num_rows == len(expected.gathered.events)
    assert "zk-fsync-slow" in table["kind"].to_pylist()
    drawn = json.loads(trace.read_text())["traceEvents"]
    stalls = [(one["ts"], one["dur"]) for one in drawn if one.get("cat") == "zk-fsync-slow"]
    assert told_by(html.read_text())["diagnoses"] == data(expected)["diagnoses"]
    assert sorted(stalls) == [(1772629959083000, 30334000), (1772629959084000, 30456000)]
    again = explain(tmp_path / "report.txt", *written)
    assert again.returncode == 0, "an answer of before may be written over"
    assert json.loads(answer.read_text()) == asked(tmp_path / "report.txt").json()


def test_a_report_is_read_from_standard_input(tmp_path: Path) -> None:
    done = explain("-", "--json", "-", given=RESET.encode())
    found = json.loads(done.stdout)
    assert {one["signature"] for one in found["diagnoses"]} >= {"kafka-offset-reset"}
    assert found["diagnoses"][0]["evidence"][0]["file"] == "standard input"


def test_a_text_without_log_lines_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(NO_LOGS)
    done = explain(tmp_path / "x.txt")
    assert done.returncode == 0
    assert "There are no log lines" in done.stdout.decode()


def test_what_cannot_be_done_is_a_sentence_before_spark_is_started(tmp_path: Path) -> None:
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
def test_a_log_that_stands_where_the_answer_goes_is_not_written_over(tmp_path: Path, option: str) -> None:
    (tmp_path / "1.log").write_text(quiet(1, at("13:00:00")))
    (tmp_path / "2.log").write_text(quiet(2, at("13:00:00")))
    done = explain(option, tmp_path / "1.log", tmp_path / "2.log")
    assert done.returncode == 1
    assert f"{tmp_path / '1.log'} is left as it is: {option} is followed by the file to write" in done.stderr.decode()
    assert (tmp_path / "1.log").read_text() == quiet(1, at("13:00:00"))


@pytest.mark.parametrize("stage", ["bash", "java"])
def test_ctrl_c_while_spark_starts_leaves_nothing_behind(tmp_path: Path, stage: str) -> None:
    """Java is started by scripts. Until it has told its port, PySpark forgets it if it is interrupted."""
    (tmp_path / "x.log").write_text(quiet(1, at("13:00:00")))
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def ours() -> list[int]:
        return [pid for pid in pids() if environment_of(pid).get("TMPDIR") == str(temporary)]

    with subprocess.Popen(
        [*EXPLAIN, str(tmp_path / "x.log")],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        eventually(lambda: any(stage in command_of(pid)[0] for pid in children_of(process.pid)), 60, stage)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (stdout, stderr.strip()) == (b"", b"")
    assert ours() == []
    assert list(temporary.iterdir()) == []
