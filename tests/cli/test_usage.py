"""Wrong options are explained before any cluster is contacted. Exit code 2 is for wrong usage."""

from pathlib import Path

import pytest

from tests.harness.cluster.command import HOLDFAST, error_message, holdfast


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--connect", "--dir", "--cluster"])
@pytest.mark.parametrize("value", ["", "  "])
def test_empty_option_value_is_refused(option: str, value: str) -> None:
    answer = holdfast("ls", option, value)
    assert answer.returncode == 2
    assert f"Invalid value for '{option}': the value is empty" in answer.stderr


def test_empty_environment_variables_count_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOLDFAST_CONNECT", "HOLDFAST_DIR", "HOLDFAST_CLUSTER"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert "no cluster is given" in error_message(holdfast("ls"))


@pytest.mark.parametrize("command", [["submit"], ["upgrade", "words"]])
def test_unknown_option_after_the_script_is_explained_with_the_separator(tmp_path: Path, command: list[str]) -> None:
    answer = holdfast(*command, "s.py", "--n", "3")
    assert answer.returncode == 2
    assert "put '--' before the script's arguments" in answer.stderr
    assert f"holdfast {' '.join(command)} s.py -- --n 3" in answer.stderr
    assert "Did you mean" not in answer.stderr


def test_misspelled_option_of_submit_is_suggested() -> None:
    assert "Did you mean '--name'?" in holdfast("submit", "s.py", "--nmae", "x").stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [["submit"], ["upgrade", "words"]])
def test_script_is_checked_before_the_cluster_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_DIR", str(tmp_path / "no-cluster"))
    script = tmp_path / "broken.py"
    script.write_text("x = (\n")
    assert "is not Python, line 1" in error_message(holdfast(*command, str(script)))
    script.write_text("x = 1\n")
    assert "--conf 'x' is not a Spark setting" in error_message(holdfast(*command, str(script), "--conf", "x=1"))
    assert "there is no cluster in" in error_message(holdfast(*command, str(script)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--cluster"], "use --from-cluster to read the logs of a cluster"),
        (["--cluster", "--dir", "x"], "use --from-cluster to read the logs of a cluster"),
        (["--cluster", "prod"], "add --from-cluster to read its logs"),
        (["--cluster", "prod", "app.log"], "add --from-cluster to read its logs"),
        ([], "use --from-cluster"),
    ],
)
def test_explain_tells_how_to_read_a_cluster(arguments: list[str], sentence: str) -> None:
    answer = holdfast("explain", *arguments)
    assert answer.returncode == 2
    assert sentence in answer.stderr


def test_optional_job_is_in_brackets() -> None:
    assert "Usage: holdfast events [OPTIONS] [JOB]" in holdfast("events", "--help").stdout
    assert "Usage: holdfast show [OPTIONS] JOB" in holdfast("show", "--help").stdout


def test_full_disk_of_the_output_is_named_as_the_cause() -> None:
    answer = holdfast("-c", '"$0" "$@" > /dev/full', *HOLDFAST, "completion", "bash", command=["sh"])
    assert error_message(answer) == (
        "holdfast: the output cannot be written: No space left on device. The command may have taken effect all the same"
    )


@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_replaced_by_dev_null(closed: str) -> None:
    """Otherwise the next file or connection gets the number 1, and all that child processes print goes into it."""
    program = (
        "import os, sys; from holdfast.cli.command_line import _replace_closed_streams; _replace_closed_streams(); "
        "sys.stdout.buffer.write(b''); sys.exit(any(os.readlink(f'/proc/self/fd/{n}') == '' for n in range(3)))"
    )
    answer = holdfast("-c", f'"$0" -c "$1" {closed}', HOLDFAST[0], program, command=["sh"])
    assert (answer.returncode, answer.stderr) == (0, "")
