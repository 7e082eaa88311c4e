"""Expected results, readers of outputs and the table: a lost, repeated or changed row is found."""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import event_data, expected
from tests.programs.catalogue import PROGRAMS, Program
from tests.programs.event_data import GAP_S, Phase
from tests.programs.outputs import ChangedRows, FileSink, RowsAndTotals, WholeResult
from tests.programs.report import Trial, result_table
from tests.programs.rows import Row, describe_difference, to_result
from tests.programs.steps import (
    EXACT,
    KILL,
    NOT_RUN,
    SAVEPOINT,
    STEPS,
    STOP,
    UPGRADE,
    describe_refusal,
    run_steps,
    write_next_version,
)


def rows_of(generate: Callable[[int], Phase], phases: int) -> dict[str, list[Row]]:
    """Return all rows of the first phases."""
    rows: dict[str, list[Row]] = {option: [] for option in generate(0)}
    for phase in range(phases):
        for option, files in generate(phase).items():
            rows[option] += itertools.chain.from_iterable(files)
    return rows


def write_folder(directory: Path, *rows: Row) -> None:
    """Write rows as a completed job of Spark leaves them."""
    directory.mkdir(parents=True)
    (directory / "part-0.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (directory / "_SUCCESS").touch()


@pytest.mark.parametrize(
    ("generate", "find"),
    [
        (event_data.timed_words, expected.count_words_in_windows),
        (event_data.user_events, expected.find_sessions),
        (event_data.user_actions, expected.find_complex_sessions),
        (event_data.ads, expected.join_clicks),
        (event_data.repeated_events, expected.find_unique_events),
    ],
)
def test_appended_results_never_change_and_each_phase_adds_some(
    generate: Callable[[int], Phase], find: expected.Expected
) -> None:
    results = [find(rows_of(generate, phases)) for phases in (1, 2, 3)]
    for earlier, later in itertools.pairwise(results):
        assert not earlier - later
        assert len(later) >= len(earlier) + 8
    assert set(results[-1].values()) == {1}, "each result is unique, so a repeated row is found"


def test_data_has_every_case_that_the_programs_distinguish() -> None:
    joined = [json.loads(row) for row in expected.join_clicks(rows_of(event_data.ads, 3))]
    clicks = Counter(row["ad"] for row in joined if "clicked" in row)
    late = len(rows_of(event_data.ads, 3)["clicks"]) - clicks.total()
    assert late > 3 and 2 in clicks.values() and any("clicked" not in row for row in joined)
    ends = Counter(json.loads(row)["end"] for row in expected.find_complex_sessions(rows_of(event_data.user_actions, 3)))
    assert min(ends["logout"], ends["timeout"]) > 5
    repeated = rows_of(event_data.repeated_events, 1)["input"]
    assert len(repeated) > len({row["id"] for row in repeated}) + 20


def test_no_two_events_of_a_user_are_exactly_one_gap_apart() -> None:
    last: dict[str, int] = {}
    for row in rows_of(event_data.user_events, 12)["input"]:
        assert row["time"] - last.get(row["user"], 0) != GAP_S
        last[row["user"]] = row["time"]


def test_difference_names_missing_and_repeated_rows() -> None:
    wanted, found = to_result([{"n": 1}, {"n": 2}]), to_result([{"n": 2, "version": 1}, {"version": 2, "n": 2}])
    assert describe_difference(wanted, found) == '1 rows missing (such as {"n": 1}); 1 rows too many (such as {"n": 2})'
    assert describe_difference(wanted, wanted) == "no difference"


def test_folders_of_batches_are_read_in_order_up_to_a_batch(tmp_path: Path) -> None:
    for batch in (2, 10, 9):
        write_folder(tmp_path / f"batch={batch}", {"word": "a", "count": batch})
    (tmp_path / "batch=11").mkdir()
    changed = ChangedRows("word")
    assert changed.result(changed.read(tmp_path)) == to_result([{"word": "a", "count": 10}])
    assert changed.result(changed.read(tmp_path, 9)) == to_result([{"word": "a", "count": 9}])


def test_whole_result_cannot_be_read_before_it_is_complete(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        WholeResult().read(tmp_path)
    write_folder(tmp_path / "out", {"n": 1})
    assert WholeResult().read(tmp_path / "out") == [{"n": 1}]


def test_totals_of_all_batches_are_added(tmp_path: Path) -> None:
    for batch in (0, 1):
        write_folder(tmp_path / "rows" / f"batch={batch}", {"number": batch})
        write_folder(tmp_path / "totals" / f"batch={batch}", {"rows": 1, "sum": batch})
    output = RowsAndTotals()
    assert output.result(output.read(tmp_path)) == to_result([{"number": 0}, {"number": 1}, {"rows": 2, "sum": 1}])


def test_files_that_the_log_of_the_sink_does_not_name_are_no_rows(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("a", "b", "c", "unnamed"):
        (tmp_path / name).write_text(json.dumps({"file": name}) + "\n")

    def entry(name: str) -> str:
        return json.dumps({"path": f"file://{tmp_path}/{name}"})

    (log / "8").write_text(f"v1\n{entry('a')}")
    (log / "9.compact").write_text(f"v1\n{entry('a')}\n{entry('b')}")
    (log / "10").write_text(f"v1\n{entry('c')}")
    assert [row["file"] for row in FileSink().read(tmp_path)] == ["a", "b", "c"]
    assert [row["file"] for row in FileSink().read(tmp_path, 9)] == ["a", "b"]
    assert [row["file"] for row in FileSink().read(tmp_path, 8)] == ["a"]


def test_failed_step_ends_a_trial_and_its_cell_says_why() -> None:
    def fail() -> str:
        raise AssertionError("2 rows\nmissing")

    lines: list[str] = []
    cells = run_steps({KILL: lambda: EXACT, STOP: fail, SAVEPOINT: lambda: EXACT, UPGRADE: lambda: EXACT}, lines.append)
    assert cells == {KILL: EXACT, STOP: "FAILED: 2 rows missing", SAVEPOINT: NOT_RUN, UPGRADE: NOT_RUN}
    assert Trial("words", "word count", cells, 1.0).failed
    assert lines[-1] == "stop, resume: FAILED: 2 rows missing"


def test_answer_of_a_refused_command_names_neither_the_job_nor_a_folder() -> None:
    message = "holdfast: pi (j1) has not committed a batch in /x/j1:\n nothing to save\n"
    answer = describe_refusal(message, "pi (j1)", Path("/x/j1"))
    assert answer == "refused: JOB has not committed a batch in CHECKPOINT: nothing to save"


def test_table_puts_long_answers_below_itself_once() -> None:
    refused = "refused: there is nothing to save, because the job has not committed a batch"
    cells = {**dict.fromkeys(STEPS, EXACT), SAVEPOINT: refused}
    table = result_table([Trial("pi", "pi", cells, 12.4), Trial("words", "word count", cells, 3.6)]).splitlines()
    assert table[1].split() == ["pi", "pi", "exact", "exact", "refused", "[1]", "exact", "12"]
    assert table[3:] == [f"[1] {refused}"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_next_version_of_a_script_differs_in_its_version_and_none_imports_holdfast(program: Program, tmp_path: Path) -> None:
    text, changed = program.script.read_text(), write_next_version(program.script, tmp_path).read_text()
    assert changed.replace("VERSION = 2", "VERSION = 1") == text
    assert "holdfast" not in text
