"""Savepoints from the command line, of checkpoints that were laid out by hand."""

import json
from pathlib import Path

import pytest

from holdfast.model.phase import Phase
from tests.harness.command_line import answer, asked, refusal, run
from tests.harness.prepared_cluster import LaidOut

pytestmark = pytest.mark.real


def write_checkpoint(cluster: LaidOut, job: str, batches: int = 3) -> Path:
    query = cluster.storage / "checkpoints" / job / "query-1"
    for batch in range(batches):
        for folder in ("offsets", "commits"):
            (query / folder).mkdir(parents=True, exist_ok=True)
            (query / folder / str(batch)).write_text(f"v1\n{batch}")
    (query / "metadata").write_text("{}")
    return query


@pytest.fixture
def stopped(cluster: LaidOut) -> LaidOut:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.PARKED, "a person stopped it", attempt=2)
    write_checkpoint(cluster, "j1")
    return cluster


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "words.py"
    file.write_text("print('words')\n")
    return file


def test_one_is_made_listed_restored_and_removed(stopped: LaidOut, script: Path) -> None:
    said = answer(stopped, "savepoint", "words")
    id = said.partition(":")[0]
    assert "query-1 up to batch 2; 7 files" in said and "the job did not run" in said
    assert id in answer(stopped, "savepoint", "ls")
    listed = json.loads(answer(stopped, "savepoint", "ls", "words", "--json"))
    assert [(each["id"], each["batches"]) for each in listed] == [(id, {"query-1/": 2})]
    job = asked(stopped, "submit", str(script), "--name", "again", "--restore", id)
    restored = stopped.storage / "checkpoints" / job["id"] / "query-1"
    assert (restored / "offsets" / "2").read_text() == "v1\n2"
    assert asked(stopped, "show", "again")["spec"]["ancestors"] == ["j1"]
    assert "was removed" in answer(stopped, "savepoint", "rm", id)
    assert "there are no savepoints" in answer(stopped, "savepoint", "ls")


def test_old_ones_are_forgotten_on_request(stopped: LaidOut) -> None:
    ids = [asked(stopped, "savepoint", "words")["id"] for _ in range(2)]
    newest = asked(stopped, "savepoint", "words", "--keep", "2")["id"]
    assert [each["id"] for each in json.loads(answer(stopped, "savepoint", "ls", "--json"))] == [ids[1], newest]


def test_a_stopped_jobs_checkpoint_is_taken_over(stopped: LaidOut, script: Path) -> None:
    done = run(stopped, "submit", str(script), "--name", "again", "--restore", "words")
    assert done.returncode == 0, done.stderr
    assert "it goes on from words (j1): query-1 after batch 2" in done.stderr


def test_a_running_job_is_not_copied_from_behind_its_back(stopped: LaidOut, script: Path) -> None:
    stopped.settle("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    stopped.lease("j1", attempt=2)
    sentence = refusal(run(stopped, "submit", str(script), "--name", "again", "--restore", "words"))
    assert "words (j1) runs: make a savepoint of it" in sentence and "--instead-of j1" in sentence
    assert "the job was not paused" in answer(stopped, "savepoint", "words")


def test_a_refused_submission_leaves_no_copy_behind(stopped: LaidOut, script: Path) -> None:
    done = run(stopped, "submit", str(script), "--name", "words", "--restore", "words")
    assert done.returncode == 1
    assert "the name 'words' belongs to job j1" in done.stderr
    assert [path.name for path in (stopped.storage / "checkpoints").iterdir()] == ["j1"]


def test_the_same_request_again_copies_nothing(stopped: LaidOut, script: Path) -> None:
    words = ["submit", str(script), "--name", "again", "--restore", "words", "--request-id", "r7"]
    first, second = asked(stopped, *words), asked(stopped, *words)
    assert first["id"] == second["id"]
    assert len(list((stopped.storage / "checkpoints").iterdir())) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["savepoint", "nobody"], "there is no job 'nobody'"),
        (["savepoint", "rm", "s000000000000"], "there is no savepoint 's000000000000'"),
        (["savepoint", "rm", "../x"], "there is no savepoint"),
        (["submit", "SCRIPT", "--restore", "s000000000000"], "there is no savepoint"),
        (["submit", "SCRIPT", "--restore", "nobody"], "there is no job 'nobody'"),
        (["submit", "SCRIPT", "--instead-of", "nobody"], "there is no job 'nobody'"),
    ],
)
def test_bad_input_is_a_sentence(stopped: LaidOut, script: Path, words: list[str], sentence: str) -> None:
    assert sentence in refusal(run(stopped, *[str(script) if word == "SCRIPT" else word for word in words]))


def test_a_job_without_a_batch_has_nothing_to_keep(cluster: LaidOut) -> None:
    cluster.submit("j1", name="words")
    assert "has committed no batch yet" in refusal(run(cluster, "savepoint", "words"))
