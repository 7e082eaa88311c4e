"""`holdfast apply`: the changes that make a cluster equal to a directory of job files."""

import json
from pathlib import Path

import pytest

from holdfast.model.identifiers import JobId
from holdfast.model.phase import Phase
from tests.harness.command_line import error_message, run_command, run_json, run_ok
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "jobs"
    directory.mkdir()
    (directory / "words.py").write_text("print('words')\n")
    (directory / "words.toml").write_text(
        'script = "words.py"\narguments = ["--input", "ü b", 3]\n[conf]\n"spark.ui.enabled" = false\n'
    )
    (directory / "rates.toml").write_text('script = "words.py"\nrestart = "never"\nslots = 2\n')
    return directory


def live(cluster: PreparedCluster) -> dict[str, dict[str, object]]:
    return {job["name"]: job for job in json.loads(run_ok(cluster, "ls", "--json"))}


def test_schedule_of_a_job_file_is_submitted_changed_and_removed(cluster: PreparedCluster, files: Path) -> None:
    (files / "rates.toml").unlink()
    file = files / "words.toml"
    file.write_text('script = "words.py"\ncron = "@daily"\ntimezone = "Europe/Berlin"\npark_after = 2\n')
    run_ok(cluster, "apply", str(files), "--yes")
    schedule = live(cluster)["words"]["schedule"]
    assert isinstance(schedule, dict)
    assert (schedule["cron"], schedule["timezone"], schedule["park_after"]) == ("@daily", "Europe/Berlin", 2)
    assert "= words: unchanged" in run_ok(cluster, "apply", str(files), "--dry-run")
    for text in ('script = "words.py"\nevery = "10m"\n', 'script = "words.py"\n'):
        file.write_text(text)
        assert "new schedule" in run_ok(cluster, "apply", str(files), "--dry-run")
        run_ok(cluster, "apply", str(files), "--yes")
    file.write_text('script = "words.py"\nevery = 10\n')
    assert "'every' must be a text" in error_message(run_command(cluster, "apply", str(files), "--dry-run"))


def test_described_jobs_are_submitted_once(cluster: PreparedCluster, files: Path) -> None:
    shown = run_ok(cluster, "apply", str(files), "--dry-run")
    assert shown.splitlines() == ["+ rates: submit words.py", "+ words: submit words.py"]
    assert live(cluster) == {}
    run_ok(cluster, "apply", str(files), "--yes")
    assert set(live(cluster)) == {"words", "rates"}
    spec = run_json(cluster, "show", "words")["spec"]
    assert spec["arguments"] == ["--input", "ü b", "3"]
    assert spec["conf"] == [["spark.ui.enabled", "false"]]
    assert run_ok(cluster, "apply", str(files)).splitlines() == ["= rates: unchanged", "= words: unchanged", "nothing to do"]


def test_warnings_about_scripts_are_shown_before_the_changes_and_not_for_unchanged_jobs(
    cluster: PreparedCluster, files: Path
) -> None:
    (files / "rates.toml").unlink()
    (files / "words.py").write_text('lines = spark.readStream.format("socket").load()\n')
    warning = "holdfast: words.py, line 1: the source 'socket' cannot be resumed"
    planned = run_command(cluster, "apply", str(files), "--dry-run", "--json")
    assert warning in planned.stderr and json.loads(planned.stdout)[0]["act"] == "submit"
    done = run_command(cluster, "apply", str(files), "--yes")
    assert done.returncode == 0 and done.stderr.count(warning) == 1
    assert warning not in run_command(cluster, "apply", str(files), "--dry-run").stderr


def test_changed_jobs_are_upgraded_and_undescribed_jobs_are_cancelled(cluster: PreparedCluster, files: Path) -> None:
    run_ok(cluster, "apply", str(files), "--yes")
    before = live(cluster)
    (files / "rates.toml").unlink()
    (files / "words.py").write_text("print('other words')\n")
    shown = run_ok(cluster, "apply", str(files), "--yes").splitlines()
    assert shown[:2] == [
        f"~ words: upgrade {before['words']['id']}: new program",
        f"- rates: cancel {before['rates']['id']}: no file describes it",
    ]
    after = live(cluster)
    assert after["words"]["id"] == before["words"]["id"]
    assert after["rates"]["desired"] == "cancel"
    assert cluster.get(cluster.paths.spec(JobId(str(before["words"]["id"])), 2)) is not None
    assert "= words: unchanged" in run_ok(cluster, "apply", str(files), "--dry-run")


def test_json_lists_each_change_with_its_job(cluster: PreparedCluster, files: Path) -> None:
    planned = run_json(cluster, "apply", str(files), "--dry-run")
    assert [(change["act"], change["name"], change["id"]) for change in planned] == [
        ("submit", "rates", None),
        ("submit", "words", None),
    ]
    done = run_json(cluster, "apply", str(files), "--yes")
    assert {change["name"]: change["id"] for change in done} == {name: job["id"] for name, job in live(cluster).items()}
    (files / "rates.toml").unlink()
    ids = {change["name"]: change["id"] for change in done}
    assert [(change["act"], change["id"]) for change in run_json(cluster, "apply", str(files), "--yes")] == [
        ("cancel", ids["rates"]),
        ("nothing", ids["words"]),
    ]


def test_apply_asks_before_it_cancels(cluster: PreparedCluster, files: Path) -> None:
    cluster.submit("j1", name="precious")
    sentence = error_message(run_command(cluster, "apply", str(files)))
    assert "there is no terminal: repeat with --yes" in sentence
    assert live(cluster)["precious"]["desired"] == "run"


def test_change_of_slots_is_refused(cluster: PreparedCluster, files: Path) -> None:
    run_ok(cluster, "apply", str(files), "--yes")
    (files / "rates.toml").write_text('script = "words.py"\nrestart = "never"\nslots = 3\n')
    assert "occupies 2 slots, and an upgrade cannot change that" in error_message(
        run_command(cluster, "apply", str(files), "--yes")
    )


def test_ended_jobs_are_ignored(cluster: PreparedCluster, files: Path) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.FINISHED, "it is done")
    cluster.remove(cluster.paths.name("words"))
    assert "+ words: submit words.py" in run_ok(cluster, "apply", str(files), "--dry-run")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("script = ", "the file is not valid TOML"),
        ('script = "missing.py"', "there is no file"),
        ('name = "x"', "'script' is missing"),
        ('script = "words.py"\nslot = 2', "unknown key 'slot'"),
        ('script = "words.py"\nslots = "2"', "'slots' must be a number"),
        ('script = "words.py"\nslots = 0', "'slots' must be 1 to 1000"),
        ('script = "words.py"\narguments = [[1]]', "must be text or a number"),
        ('script = "words.py"\nrestart = "always"', "is not a restart strategy"),
        ('script = "words.py"\nname = "words"', "describes a job of the same name, 'words'"),
    ],
)
def test_one_invalid_file_prevents_all_changes(cluster: PreparedCluster, files: Path, content: str, sentence: str) -> None:
    (files / "zzz.toml").write_text(content)
    printed_text = error_message(run_command(cluster, "apply", str(files), "--yes"))
    assert sentence in printed_text and "zzz.toml" in printed_text
    assert live(cluster) == {}


def test_path_that_is_no_directory_is_refused(cluster: PreparedCluster, files: Path) -> None:
    assert "is not a directory" in error_message(run_command(cluster, "apply", str(files / "words.py")))
