"""Error lines without a diagnosis: the answer lists them and does not say that nothing is wrong."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from holdfast.cli.render.diagnosis import print_answer
from holdfast.explain import range_scan
from holdfast.explain.inputs import InputFile
from holdfast.explain.library import load_library
from holdfast.explain.report.answer import Answer
from holdfast.explain.report.html import render_page
from holdfast.explain.scan import error_classifier, error_lines, ranges
from holdfast.explain.scan.error_lines import ErrorLines
from holdfast.explain.scan.record_scan import FileMode, scan_records
from holdfast.explain.timeline.merge import merge_scans
from tests.explain.report.test_html import embedded_data
from tests.harness.explain_in_process import explain_logs, scan_files
from tests.harness.log_situations import at, flink_line, healthy_log, kafka_line, stall_line, zookeeper_line

KNOWN = load_library()
WHEN = at("13:20:00")
HEALTHY = healthy_log(1, at("13:00:00"))
CLEAN = "Nothing is wrong as far as these logs tell"
UNKNOWN = "No known signature fits."
EXPLAIN = [sys.executable, "-P", "-m", "holdfast.cli.main", "explain"]
TRACE = "java.io.IOException: No space left on device\n\tat a.B.c(B.java:1)\nCaused by: java.lang.RuntimeException: x\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "job.py", line 3, in <module>\nValueError: bad input\n'


def answer_to(directory: Path, text: str | bytes, name: str = "a.log") -> Answer:
    file = directory / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return explain_logs(file)


def counts(answer: Answer) -> tuple[int, int, int]:
    """Return the number of FATAL lines, ERROR lines and exceptions."""
    found = answer.as_json()["errors"]["counts"]
    return found["fatal"], found["error"], found["exception"]


def test_log_without_errors_is_reported_as_fine(tmp_path: Path) -> None:
    answer = answer_to(tmp_path, HEALTHY)
    assert answer.summary.startswith(CLEAN)
    assert answer.complete
    assert answer.as_json()["errors"] == {
        "counts": {"fatal": 0, "error": 0, "exception": 0},
        "first": None,
        "most_frequent": [],
    }


def test_exception_of_a_structured_spark_log_is_counted_at_any_level(tmp_path: Path) -> None:
    """Spark 4 writes it as an object with its class, message and stack trace."""
    record = {"ts": "2026-03-04T13:20:00.123Z", "level": "WARN", "msg": "Lost task 0.0", "logger": "TaskSetManager"}
    exception = {"class": "java.io.IOException", "msg": "disk", "stacktrace": [{"class": "a.B", "line": "12"}]}
    answer = answer_to(tmp_path, json.dumps(record) + "\n" + json.dumps({**record, "exception": exception}) + "\n")
    assert counts(answer) == (0, 0, 1)
    assert answer.summary.startswith(UNKNOWN)


def test_exception_in_a_quoted_mail_is_counted(tmp_path: Path) -> None:
    quoted = "".join(f"> {line}\n" for line in (HEALTHY + TRACE).splitlines())
    assert counts(answer_to(tmp_path, "Anna wrote:\n\nThis.\n" + quoted)) == counts(answer_to(tmp_path, HEALTHY + TRACE))


ERROR_RECORDS = {
    "zookeeper": zookeeper_line(WHEN, 1, "main:ZooKeeperServer@1", "Severe unrecoverable error, exiting", "ERROR"),
    "kafka": kafka_line(WHEN, "Shutdown broker because all log dirs have failed", "kafka.log.LogManager", "ERROR"),
    "flink": flink_line(WHEN, "Could not start", "org.apache.flink.runtime.Some", "ERROR"),
    "spark": "26/03/04 13:20:00 ERROR Utils: Uncaught exception in thread main\n",
    "spark without a logger": "26/03/04 13:20:00 ERROR something without a logger\n",
    "thread first": "2026-03-04T13:20:00.000Z [main] ERROR c.e.Thing - it broke\n",
    "level in brackets": "2026-03-04 13:20:00,000 [ERROR] it broke\n",
    "python logging": "2026-03-04 13:20:00,000 - worker - ERROR - it broke\n",
    "java.util.logging level": "2026-03-04 13:20:00,000 SEVERE a.B - it broke\n",
    "holdfast": '{"event": "the runner broke", "level": "error", "time": "2026-03-04T13:20:00.000Z"}\n',
    "ecs": '{"@timestamp": "2026-03-04T13:20:00.000Z", "log.level": "ERROR", "message": "it broke"}\n',
    "json cut off": '{"time": "2026-03-04T13:20:00.000Z", "level": "error", "event": "it bro\n',
    "colours": "2026-03-04 13:20:00,000 \x1b[31mERROR\x1b[0m a.B - it broke\n",
}
FATAL_RECORDS = {
    "flink": flink_line(WHEN, "Fatal error occurred", "org.apache.flink.runtime.Some", "FATAL"),
    "kafka": kafka_line(WHEN, "Exiting", "kafka.Kafka", "FATAL"),
    "critical": "2026-03-04 13:20:00,000 CRITICAL a.b - it broke\n",
    "holdfast": '{"event": "the runner broke", "level": "critical", "time": "2026-03-04T13:20:00.000Z"}\n',
}
EXCEPTIONS = {
    "stack trace under a warning": zookeeper_line(WHEN, 1, "main:A@1", "Unexpected", "WARN") + TRACE,
    "stack trace under an info": flink_line(WHEN, "switched", "a.B") + TRACE,
    "python traceback": flink_line(WHEN, "the script said", "a.B") + TRACEBACK,
    "exception as the message": kafka_line(WHEN, "java.io.IOException: x", "a.B", "WARN") + "Caused by: java.lang.Error\n",
    "thread": flink_line(WHEN, "x", "a.B") + 'Exception in thread "main" java.lang.Error: x\nCaused by: a.BException: y\n',
    "nested class": flink_line(WHEN, "x", "a.B") + "a.b.KeeperException$NoNodeException: K\nCaused by: a.C$DError: y\n",
    "windows line ends": (flink_line(WHEN, "x", "a.B") + "java.io.EOFException\nCaused by: a.BException\n").replace(
        "\n", "\r\n"
    ),
}


@pytest.mark.parametrize("record", ERROR_RECORDS.values(), ids=ERROR_RECORDS.keys())
def test_record_at_level_error_is_counted_and_listed(tmp_path: Path, record: str) -> None:
    """The record is in a separate file, because a file usually has one format."""
    (tmp_path / "healthy.log").write_text(HEALTHY)
    (tmp_path / "odd.log").write_text(record * 3)
    answer = explain_logs(tmp_path)
    assert answer.summary.startswith(f"{UNKNOWN} 3 lines report an error (3 ERROR).")
    assert counts(answer) == (0, 3, 0)
    (listed,) = answer.as_json()["errors"]["most_frequent"]
    assert (listed["count"], listed["kind"], listed["line"], listed["offset"]) == (3, "error", 1, 0)
    assert listed["file"] == str(tmp_path / "odd.log")


@pytest.mark.parametrize("record", FATAL_RECORDS.values(), ids=FATAL_RECORDS.keys())
def test_record_at_a_fatal_level_is_counted(tmp_path: Path, record: str) -> None:
    (tmp_path / "healthy.log").write_text(HEALTHY)
    (tmp_path / "odd.log").write_text(record)
    answer = explain_logs(tmp_path)
    assert answer.summary.startswith(f"{UNKNOWN} 1 line reports an error (1 FATAL).")
    assert counts(answer) == (1, 0, 0)


@pytest.mark.parametrize("text", EXCEPTIONS.values(), ids=EXCEPTIONS.keys())
def test_exception_is_counted_whatever_the_level_of_its_record(tmp_path: Path, text: str) -> None:
    answer = answer_to(tmp_path, HEALTHY + text)
    assert answer.summary.startswith(f"{UNKNOWN} 2 lines report an error (2 exceptions).")
    assert counts(answer) == (0, 0, 2)


@pytest.mark.parametrize(
    "record",
    [
        '{"event": "it broke", "level": "warning", "exception": "Traceback (most recent call last): x", "time": "%s"}\n',
        '{"event": "ValueError: bad input", "level": "info", "time": "%s"}\n',
    ],
    ids=["key", "message"],
)
def test_exception_in_json_is_counted(tmp_path: Path, record: str) -> None:
    assert counts(answer_to(tmp_path, record % "2026-03-04T13:20:00.000Z")) == (0, 0, 1)


HARMLESS = [
    flink_line(WHEN, "0 ERROR lines so far, no IOException: good", "a.B"),
    kafka_line(WHEN, "errors.tolerance = none", "a.ErrorHandler"),
    flink_line(WHEN, "config:", "a.B") + "\terrors.tolerance = none\n\tonError = stop\n\tInception: 7\n\tTERROR: 1\n",
    '{"event": "error budget left", "level": "info", "errors": 0, "time": "2026-03-04T13:20:00.000Z"}\n',
]


@pytest.mark.parametrize("text", HARMLESS)
def test_words_that_only_resemble_errors_are_not_counted(tmp_path: Path, text: str) -> None:
    (tmp_path / "healthy.log").write_text(HEALTHY)
    (tmp_path / "odd.log").write_text(text)
    answer = explain_logs(tmp_path)
    assert answer.summary.startswith(CLEAN)
    assert counts(answer) == (0, 0, 0)


def docker(text: str) -> str:
    lines = [{"log": line, "stream": "stdout", "time": "2026-03-04T13:20:00.1Z"} for line in text.splitlines(keepends=True)]
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in lines)


def kubernetes(text: str) -> str:
    return "".join(f"2026-03-04T13:20:00.123456789Z stdout F {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("wrap", [docker, kubernetes])
@pytest.mark.parametrize("dated", [True, False], ids=["records inside", "no records inside"])
def test_errors_are_counted_in_wrapped_logs(tmp_path: Path, wrap: Callable[[str], str], dated: bool) -> None:
    record = ERROR_RECORDS["flink"] if dated else "ERROR it broke\n"
    answer = answer_to(tmp_path, wrap((HEALTHY if dated else "all is well\n" * 30) + record + TRACE))
    assert counts(answer) == (0, 1, 2)


UNDATED = ["ERROR StatusLogger No config\n", "[ERROR] it broke\n", "SEVERE: it broke\n", TRACEBACK]
COLOURED = [
    "\x1b[31mERROR\x1b[0m it broke\n",
    "\x1b[1;31mERROR\x1b[m: it broke\n",
    "[\x1b[31mERROR\x1b[0m] it broke\n",
    "\x1b[0m\x1b[31m[ERROR]\x1b[0m it broke\n",
]


@pytest.mark.parametrize("line", UNDATED)
def test_error_line_without_a_time_is_listed(tmp_path: Path, line: str) -> None:
    """The line is before the first record, or in a file without records."""
    for name, text in (("lead.log", line + HEALTHY), ("plain.log", line)):
        answer = answer_to(tmp_path, text, name)
        found = answer.as_json()["errors"]
        assert answer.summary.startswith(UNKNOWN)
        assert "no time." in answer.summary
        assert not answer.complete
        assert (found["first"]["line"], found["first"]["offset"]) == (1, 0)
        assert found["first"]["text"] == line.split("\n", 1)[0]


@pytest.mark.parametrize("line", COLOURED)
def test_level_between_terminal_colours_is_counted(tmp_path: Path, line: str) -> None:
    for name, text in (("lead.log", line + HEALTHY), ("plain.log", line)):
        assert counts(answer_to(tmp_path, text, name)) == (0, 1, 0)


@pytest.mark.parametrize("line", ["\x1b[31mTERROR\x1b[0m it broke\n", "\x1b[31mERRORS\x1b[0m: 0\n", "\x1b[31m\n", "\x1b["])
def test_coloured_words_that_are_no_level_are_not_counted(tmp_path: Path, line: str) -> None:
    assert counts(answer_to(tmp_path, line + HEALTHY)) == (0, 0, 0)


LEFT_OUT: dict[str, tuple[bytes, str]] = {
    "lines without a time": (b"starting up\n" + HEALTHY.encode(), "1 line has no time."),
    "records without a time": (b'{"event": "something"}\n' * 2, "2 lines have no time."),
    "binary": (bytes(range(128, 256)) * 10, "1 line has no time."),
    "utf-16": (HEALTHY.encode("utf-16"), "Some input was not read completely: see the notes."),
    "cut off": (gzip.compress(200 * HEALTHY.encode())[:-20], "Some input was not read completely: see the notes."),
    "no year": (
        b"Nov 16 12:00:01 n7 zk[8]: Established session 0x1 with negotiated timeout 9 for client /10.0.0.1:5\n",
        "1 file states times without a date.",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("data", "reason"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_unread_or_undated_input_is_reported(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "healthy.log").write_text(HEALTHY)
    (tmp_path / "odd.log").write_bytes(data)
    answer = explain_logs(tmp_path)
    assert answer.diagnoses == ()
    assert answer.summary.startswith(UNKNOWN)
    assert reason in answer.summary
    assert answer.as_json()["complete"] is False


def test_first_error_is_the_earliest_and_the_list_is_ordered_by_count(tmp_path: Path) -> None:
    rare = zookeeper_line(at("13:19:00"), 2, "main:A@1", "it began here", "ERROR")
    often = "".join(zookeeper_line(WHEN, 1, "main:A@1", f"request {n} failed", "ERROR") for n in range(7))
    (tmp_path / "1.log").write_text(HEALTHY + often)
    (tmp_path / "2.log.gz").write_bytes(gzip.compress((healthy_log(2, at("13:00:00")) + rare).encode()))
    found = explain_logs(tmp_path).as_json()["errors"]
    assert (found["first"]["text"], found["first"]["line"]) == (rare.strip(), 21)
    assert [(one["count"], one["file"], one["line"]) for one in found["most_frequent"]] == [
        (7, str(tmp_path / "1.log"), 21),
        (1, str(tmp_path / "2.log.gz"), 21),
    ]


def test_errors_beside_a_diagnosis_appear_only_in_the_json_answer(tmp_path: Path) -> None:
    answer = answer_to(tmp_path, HEALTHY + stall_line(1, WHEN, 30334) + ERROR_RECORDS["zookeeper"])
    assert "No known signature" not in answer.summary
    assert counts(answer) == (0, 1, 0)
    assert "error line" not in print_to_text(answer)


def print_to_text(answer: Answer) -> str:
    console = Console(width=300)
    with console.capture() as captured:
        print_answer(answer, console)
    return captured.get()


def test_the_page_has_the_error_lines(tmp_path: Path) -> None:
    answer = answer_to(tmp_path, HEALTHY + ERROR_RECORDS["zookeeper"])
    text = render_page(answer)
    assert embedded_data(text)["errors"] == answer.as_json()["errors"]
    assert embedded_data(text)["summary"].startswith(UNKNOWN)
    assert 'id="errors"' in text


def scan_in_steps(path: Path, step: int, order: Callable[[Sequence[Any]], Sequence[Any]]) -> ErrorLines:
    size = path.stat().st_size
    parts = [ranges.ByteRange(0, str(path), "", begin, min(begin + step, size)) for begin in range(0, size, step)]
    scans = [range_scan.scan_ranges([range], KNOWN, compiled=True) for range in order(parts)]
    return merge_scans([InputFile(str(path), "x", size)], scans).errors


@pytest.mark.slow
def test_error_lines_do_not_depend_on_splitting_and_merge_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [HEALTHY, ERROR_RECORDS["zookeeper"], TRACE, HEALTHY, FATAL_RECORDS["flink"], EXCEPTIONS["python traceback"]]
    path = tmp_path / "a.log"
    path.write_text("".join(parts * 5))
    whole = scan_in_steps(path, 1 << 20, list)
    assert whole.counts.total() == 5 * 6
    for step in (2000, 313, 97):
        for order in (list, lambda ranges: ranges[::-1]):
            found = scan_in_steps(path, step, order)
            assert found.counts == whole.counts
            in_brief = [(one.total, one.offset, one.line, one.text) for one in found.most_frequent()]
            assert in_brief == [(one.total, one.offset, one.line, one.text) for one in whole.most_frequent()]
            assert min(found.first, key=lambda one: one.position).offset == whole.first[0].offset
    monkeypatch.setattr(range_scan, "BLOCK_BYTES", 700)
    assert scan_in_steps(path, 1 << 20, list).most_frequent() == whole.most_frequent()


@pytest.mark.slow
def test_result_of_a_range_is_bounded_and_its_counts_are_exact(tmp_path: Path) -> None:
    words = [f"{'a' * n} failed" for n in range(1, 3 * error_lines.ERROR_TEMPLATES_MAX)]
    path = tmp_path / "a.log"
    path.write_text("".join(zookeeper_line(WHEN, 1, "main:A@1", word, "ERROR") for word in words) * 2 + HEALTHY)
    found = scan_in_steps(path, 1 << 20, list)
    assert len(found.templates) == error_lines.ERROR_TEMPLATES_MAX
    assert found.counts[error_classifier.ErrorKind.ERROR] == 2 * len(words)


def test_errors_are_counted_in_logs_with_very_many_templates(tmp_path: Path) -> None:
    words = [f"{'a' * (n % 97 + 1)} {'b' * (n // 97 + 1)}" for n in range(error_lines.DATED_TEMPLATES_MAX + 100)]
    text = "".join(zookeeper_line(WHEN, 1, "main:A@1", word) for word in words)
    answer = answer_to(tmp_path, text + "".join(ERROR_RECORDS.values()) + "".join(FATAL_RECORDS.values()))
    assert counts(answer) == (len(FATAL_RECORDS), len(ERROR_RECORDS), 0)


@pytest.mark.slow
def test_compiled_prefilter_finds_the_same_errors_as_plain_code(tmp_path: Path) -> None:
    words = [f"{'a' * (n % 97 + 1)} {'b' * (n // 97 + 1)}" for n in range(3 * error_lines.DATED_TEMPLATES_MAX)]
    levels = ["INFO", "INFO", "ERROR", "WARN", "FATAL"]
    lines = [zookeeper_line(WHEN, 1, "main:A@1", word, levels[n % 5]) for n, word in enumerate(words)]
    lines += [flink_line(WHEN, f"{word} {hint}", "a.B") for word in words[:20] for hint in ("no error", "Except that", "x")]
    path = tmp_path / "a.log"
    path.write_text("".join(lines))
    plain, compiled = (scan_files(path, compiled=compiled).errors for compiled in (False, True))
    assert plain.counts == compiled.counts
    assert plain.counts[error_classifier.ErrorKind.ERROR] == plain.counts[error_classifier.ErrorKind.FATAL] == len(words) // 5
    assert plain == compiled


@pytest.mark.slow
def test_compiled_and_plain_code_find_the_same_lines() -> None:
    texts = [
        *ERROR_RECORDS.values(),
        *EXCEPTIONS.values(),
        *HARMLESS,
        *UNDATED,
        *COLOURED,
        "Caused",
        "Exception in",
        "[",
        "\n\n",
        "a" * 999,
    ]
    data = "\n".join([*texts, *map(docker, texts), *map(kubernetes, texts)]).encode()
    wrappers = KNOWN.formats.wrapper_table
    for mode in FileMode:
        records = scan_records(data, len(data), mode, KNOWN.formats.header_table(mode), wrappers=wrappers, compiled=False)
        plain, compiled = (
            error_classifier.find_other_errors(data, records, mode, wrappers, compiled=compiled) for compiled in (False, True)
        )
        assert len(plain.starts) > 0
        assert all(np.array_equal(one, other) for one, other in zip(plain, compiled, strict=True))


@pytest.mark.real
@pytest.mark.slow
def test_the_command_lists_error_lines_in_the_terminal_and_in_the_answer(tmp_path: Path) -> None:
    log = tmp_path / "zk1.log"
    log.write_text(HEALTHY + ERROR_RECORDS["zookeeper"] * 2 + TRACE)
    written = ["--json", str(tmp_path / "answer.json"), "--html", str(tmp_path / "page.html")]
    done = subprocess.run([*EXPLAIN, str(log), *written], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    output = done.stdout.decode()
    assert CLEAN not in output
    assert f"{UNKNOWN} 4 lines report an error (2 ERROR, 2 exceptions)." in output
    assert f"{log}:21  {ERROR_RECORDS['zookeeper'].strip()}" in output
    assert f"{log}:21 (2 times)" in output
    assert f"{log}:23 (1 time)  java.io.IOException: No space left on device" in output
    assert json.loads((tmp_path / "answer.json").read_text()) == explain_logs(log).as_json()
    assert UNKNOWN in embedded_data((tmp_path / "page.html").read_text())["summary"]
