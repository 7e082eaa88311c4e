"""`holdfast savepoint`, with hand-made checkpoints."""

import json
from pathlib import Path

import pytest

from holdfast.model.phase import Phase
from tests.harness.command_line import error_message, run_command, run_json, run_ok
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real


def write_checkpoint(cluster: PreparedCluster, job: str, batches: int = 3) -> Path:
    query = cluster.storage / "checkpoints" / job / "query-1"
    for batch in range(batches):
        for folder in ("offsets", "commits"):
            (query / folder).mkdir(parents=True, exist_ok=True)
            (query / folder / str(batch)).write_text(f"v1\n{batch}")
    (query / "metadata").write_text("{}")
    return query


@pytest.fixture
def stopped_job(cluster: PreparedCluster) -> PreparedCluster:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.PARKED, "a user stopped the job", attempt=2)
    write_checkpoint(cluster, "j1")
    return cluster


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "words.py"
    file.write_text("print('words')\n")
    return file


def test_savepoint_is_made_listed_restored_and_removed(stopped_job: PreparedCluster, script: Path) -> None:
    printed_text = run_ok(stopped_job, "savepoint", "words")
    id = printed_text.partition(":")[0]
    assert "query-1 up to batch 2; 7 files" in printed_text and "the job was not running" in printed_text
    assert id in run_ok(stopped_job, "savepoint", "ls")
    listed = json.loads(run_ok(stopped_job, "savepoint", "ls", "words", "--json"))
    assert [(each["id"], each["batches"]) for each in listed] == [(id, {"query-1/": 2})]
    job = run_json(stopped_job, "submit", str(script), "--name", "again", "--restore", id)
    restored = stopped_job.storage / "checkpoints" / job["id"] / "query-1"
    assert (restored / "offsets" / "2").read_text() == "v1\n2"
    assert run_json(stopped_job, "show", "again")["spec"]["ancestors"] == ["j1"]
    assert "removed savepoint" in run_ok(stopped_job, "savepoint", "rm", id)
    assert "no savepoints" in run_ok(stopped_job, "savepoint", "ls")


def test_keep_removes_older_savepoints(stopped_job: PreparedCluster) -> None:
    ids = [run_json(stopped_job, "savepoint", "words")["id"] for _ in range(2)]
    newest = run_json(stopped_job, "savepoint", "words", "--keep", "2")["id"]
    assert [each["id"] for each in json.loads(run_ok(stopped_job, "savepoint", "ls", "--json"))] == [ids[1], newest]


def test_new_job_restores_checkpoint_of_stopped_job(stopped_job: PreparedCluster, script: Path) -> None:
    done = run_command(stopped_job, "submit", str(script), "--name", "again", "--restore", "words")
    assert done.returncode == 0, done.stderr
    assert "the new job continues from words (j1): query-1 after batch 2" in done.stderr


def test_restore_from_running_job_is_refused(stopped_job: PreparedCluster, script: Path) -> None:
    stopped_job.write_state("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    stopped_job.write_lease("j1", attempt=2)
    sentence = error_message(run_command(stopped_job, "submit", str(script), "--name", "again", "--restore", "words"))
    assert "words (j1) is running, so its checkpoint cannot be restored" in sentence and "--instead-of j1" in sentence
    assert "the job was not paused" in run_ok(stopped_job, "savepoint", "words")


def test_refused_submission_removes_its_checkpoint_copy(stopped_job: PreparedCluster, script: Path) -> None:
    done = run_command(stopped_job, "submit", str(script), "--name", "words", "--restore", "words")
    assert done.returncode == 1
    assert "the name 'words' belongs to job j1" in done.stderr
    assert [path.name for path in (stopped_job.storage / "checkpoints").iterdir()] == ["j1"]


def test_repeated_request_copies_nothing(stopped_job: PreparedCluster, script: Path) -> None:
    words = ["submit", str(script), "--name", "again", "--restore", "words", "--request-id", "r7"]
    first, second = run_json(stopped_job, *words), run_json(stopped_job, *words)
    assert first["id"] == second["id"]
    assert len(list((stopped_job.storage / "checkpoints").iterdir())) == 2


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
def test_bad_input_is_a_sentence(stopped_job: PreparedCluster, script: Path, words: list[str], sentence: str) -> None:
    assert sentence in error_message(run_command(stopped_job, *[str(script) if word == "SCRIPT" else word for word in words]))


def test_savepoint_of_job_without_batches_is_refused(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    assert "has not committed a batch" in error_message(run_command(cluster, "savepoint", "words"))
