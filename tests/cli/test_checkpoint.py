"""`holdfast checkpoint`: verdicts, output and exit codes, without a cluster."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.command_line import holdfast
from holdfast.client.checkpoints import judge_location
from tests.harness.checkpoint_trees import checkpoint_files, with_state, write_files


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(holdfast, ["checkpoint", *map(str, arguments)])


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    write_files(with_state(checkpoint_files(3), 3), tmp_path / "whole")
    return tmp_path / "whole"


@pytest.fixture
def damaged_checkpoint(tmp_path: Path) -> Path:
    write_files({**checkpoint_files(3), "commits/2": b""}, tmp_path / "damaged")
    return tmp_path / "damaged"


@pytest.fixture
def unknown_checkpoint(tmp_path: Path) -> Path:
    write_files({**checkpoint_files(3), "commits/2": b"v9\n{}"}, tmp_path / "unknown")
    return tmp_path / "unknown"


def test_whole_checkpoint_shows_batches_offsets_state_and_spark(whole: Path) -> None:
    result = run(whole)
    assert result.exit_code == 0 and result.stderr == ""
    assert result.stdout.startswith(f"whole    {whole}\n")
    for words in (
        "batch 2 committed, batch 3 planned",
        "state 0: 6 B in 2 partitions",
        'source 0: {"logOffset": 3}',
        "Spark: 2.1 and",
    ):
        assert words in result.stdout


def test_damage_is_shown_with_its_proof(damaged_checkpoint: Path) -> None:
    result = run(damaged_checkpoint)
    assert result.exit_code == 1
    assert "damage: commits/2 is empty [Spark fails: CommitLog.readCommitMetadata]" in result.stdout


def test_unknown_format_is_shown_with_the_reason(unknown_checkpoint: Path) -> None:
    result = run(unknown_checkpoint)
    assert result.exit_code == 3
    assert "cannot judge: commits/2 has version 9, which is not known" in result.stdout
    assert "Spark: not known which versions read it" in result.stdout


def test_exit_code_is_that_of_the_worst_verdict(whole: Path, damaged_checkpoint: Path, unknown_checkpoint: Path) -> None:
    assert [
        run(*paths).exit_code
        for paths in ((whole, whole), (whole, unknown_checkpoint), (unknown_checkpoint, damaged_checkpoint, whole))
    ] == [0, 3, 1]


def test_tree_of_checkpoints_is_judged_one_by_one(whole: Path, damaged_checkpoint: Path, unknown_checkpoint: Path) -> None:
    result = run(whole.parent, "--json")
    reports = json.loads(result.stdout)
    assert [(Path(each["location"]).name, each["verdict"]) for each in reports] == [
        ("damaged", "damaged"),
        ("unknown", "unknown"),
        ("whole", "whole"),
    ]
    assert result.exit_code == 1
    (finding,) = reports[0]["findings"]
    assert (finding["file"], finding["kind"], finding["rule"]) == ("commits/2", "damaged", "commit-unreadable")
    assert finding["spark"] == "CommitLog.readCommitMetadata"
    assert reports[2]["findings"] == [] and reports[2]["planned"] == 3 and reports[2]["spark"]["oldest"] == "2.1"


@pytest.mark.parametrize("name", ["missing", "empty", "garbage", "file"])
def test_path_without_a_checkpoint_is_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "file":
        path.write_text("x")
    elif name != "missing":
        path.mkdir()
    if name == "garbage":
        (path / "a").mkdir()
        (path / "a" / "b").write_bytes(b"\0\xff")
        (path / "offsets").write_text("x")
    result = run(path)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
    assert str(path) in result.stderr
    assert run(path, "--json").stdout.strip() == "[]"


def test_wrong_usage_exits_with_2() -> None:
    assert run().exit_code == 2
    assert run("").exit_code == 2
    assert run("ftp://host/path").exit_code == 1


def test_relative_path_is_accepted(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(whole.parent)
    assert [report.location for report in judge_location("whole/../whole/")] == [str(whole)]


def test_location_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (report,) = judge_location(str(tmp_path / "file" / "below"))
    assert (report.verdict, report.query) == ("unknown", None)
    assert "cannot list" in str(report.findings[0])
    assert run(tmp_path / "file" / "below").exit_code == 3
