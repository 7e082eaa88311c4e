"""A directory of job files, and what it takes to make a cluster equal to it."""

import json
from pathlib import Path

import pytest

from holdfast.model.identifiers import JobId
from holdfast.model.phase import Phase
from tests.harness.command_line import answer, asked, refusal, run
from tests.harness.prepared_cluster import LaidOut

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


def live(cluster: LaidOut) -> dict[str, dict[str, object]]:
    return {job["name"]: job for job in json.loads(answer(cluster, "ls", "--json"))}


def test_what_is_described_is_submitted_and_then_there_is_nothing_to_do(cluster: LaidOut, files: Path) -> None:
    shown = answer(cluster, "apply", str(files), "--dry-run")
    assert shown.splitlines() == ["+ rates: submit words.py", "+ words: submit words.py"]
    assert live(cluster) == {}
    answer(cluster, "apply", str(files), "--yes")
    assert set(live(cluster)) == {"words", "rates"}
    spec = asked(cluster, "show", "words")["spec"]
    assert spec["arguments"] == ["--input", "ü b", "3"]
    assert spec["conf"] == [["spark.ui.enabled", "false"]]
    assert answer(cluster, "apply", str(files)).splitlines() == ["= rates: as it is", "= words: as it is", "nothing to do"]


def test_what_differs_is_upgraded_and_what_is_not_described_is_cancelled(cluster: LaidOut, files: Path) -> None:
    answer(cluster, "apply", str(files), "--yes")
    before = live(cluster)
    (files / "rates.toml").unlink()
    (files / "words.py").write_text("print('other words')\n")
    shown = answer(cluster, "apply", str(files), "--yes").splitlines()
    assert shown[:2] == [
        f"~ words: upgrade {before['words']['id']}: another program",
        f"- rates: cancel {before['rates']['id']}: no file describes it",
    ]
    after = live(cluster)
    assert after["words"]["id"] == before["words"]["id"]
    assert after["rates"]["desired"] == "cancel"
    assert cluster.get(cluster.paths.spec(JobId(str(before["words"]["id"])), 2)) is not None
    assert "= words: as it is" in answer(cluster, "apply", str(files), "--dry-run")


def test_nobody_is_cancelled_without_being_asked_about(cluster: LaidOut, files: Path) -> None:
    cluster.submit("j1", name="precious")
    sentence = refusal(run(cluster, "apply", str(files)))
    assert "nobody is there to be asked" in sentence
    assert live(cluster)["precious"]["desired"] == "run"


def test_slots_are_kept(cluster: LaidOut, files: Path) -> None:
    answer(cluster, "apply", str(files), "--yes")
    (files / "rates.toml").write_text('script = "words.py"\nrestart = "never"\nslots = 3\n')
    assert "takes 2 slots, and a running job keeps its slots" in refusal(run(cluster, "apply", str(files), "--yes"))


def test_jobs_that_ended_do_not_count(cluster: LaidOut, files: Path) -> None:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.FINISHED, "it is done")
    cluster.remove(cluster.paths.name("words"))
    assert "+ words: submit words.py" in answer(cluster, "apply", str(files), "--dry-run")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("script = ", "it is not TOML"),
        ('script = "missing.py"', "there is no file"),
        ('name = "x"', "'script' is missing"),
        ('script = "words.py"\nslot = 2', "'slot' is not known"),
        ('script = "words.py"\nslots = "2"', "'slots' must be a number"),
        ('script = "words.py"\nslots = 0', "'slots' must be 1 to 1000"),
        ('script = "words.py"\narguments = [[1]]', "must be text or a number"),
        ('script = "words.py"\nrestart = "always"', "is no restart strategy"),
        ('script = "words.py"\nname = "words"', "describes a job of the same name, 'words'"),
    ],
)
def test_one_bad_file_and_nothing_is_done(cluster: LaidOut, files: Path, content: str, sentence: str) -> None:
    (files / "zzz.toml").write_text(content)
    said = refusal(run(cluster, "apply", str(files), "--yes"))
    assert sentence in said and "zzz.toml" in said
    assert live(cluster) == {}


def test_what_is_no_directory_is_refused(cluster: LaidOut, files: Path) -> None:
    assert "is not a directory" in refusal(run(cluster, "apply", str(files / "words.py")))
