"""Upgrades: what is written beside the job, and what is said to the person."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Spec, Wanted
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from tests.harness.command_line import answer, refusal, run
from tests.harness.prepared_cluster import LaidOut

pytestmark = pytest.mark.real
JOB = JobId("j1")


@pytest.fixture
def running(cluster: LaidOut) -> LaidOut:
    cluster.submit("j1", name="words", arguments=("--input", "in"))
    cluster.settle("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    cluster.lease("j1", attempt=2)
    return cluster


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "better.py"
    file.write_text("print('better')\n")
    return file


def wanted(cluster: LaidOut) -> Wanted:
    data = cluster.get(cluster.paths.job(JOB, "desired"))
    assert data is not None
    return decode(Wanted, data, where="desired")


def version(cluster: LaidOut, number: int) -> Spec:
    data = cluster.get(cluster.paths.spec(JOB, number))
    assert data is not None
    return decode(Spec, data, where="spec")


def test_what_is_not_said_stays_as_it_was(running: LaidOut, script: Path) -> None:
    said = answer(running, "upgrade", "words", str(script))
    assert "words (j1) runs on n1, and stops at its next batch boundary; then version 2 goes on from there" in said
    assert wanted(running) == Wanted(Desired.RUN, version=2)
    first, second = version(running, 1), version(running, 2)
    assert (running.storage / "blobs" / second.blob).read_bytes() == script.read_bytes()
    assert replace(second, script=first.script, blob=first.blob, by=first.by) == first


def test_what_is_said_counts(running: LaidOut, script: Path) -> None:
    words = ["--restart", "never", "--conf", "spark.x=1", "--within", "90s", "--", "--input", "elsewhere"]
    answer(running, "upgrade", "words", str(script), *words)
    second = version(running, 2)
    assert (second.restart, second.conf, second.arguments) == ("never", (("spark.x", "1"),), ("--input", "elsewhere"))
    assert wanted(running) == Wanted(Desired.RUN, version=2, trial_s=90.0)


def test_the_same_again_is_no_new_version(running: LaidOut, script: Path) -> None:
    answer(running, "upgrade", "words", str(script))
    assert "runs just that already" in answer(running, "upgrade", "words", str(script))
    assert running.get(running.paths.spec(JOB, 3)) is None


def test_a_stopped_job_keeps_it_for_later(running: LaidOut, script: Path) -> None:
    answer(running, "stop", "words")
    assert "is stopped: version 2 is what 'resume' starts" in answer(running, "upgrade", "words", str(script), "--wait")
    assert wanted(running) == Wanted(Desired.STOP, version=2)


def test_show_lists_the_versions_and_who_wanted_them(running: LaidOut, script: Path) -> None:
    answer(running, "upgrade", "words", str(script))
    running.settle("j1", Phase.RUNNING, "attempt 3 runs on n1", attempt=3, node="n1", versions=Versions(2, fallback=1))
    said = answer(running, "show", "words")
    assert "version 2" in said and "on trial until its first batch; otherwise version 1 comes back" in " ".join(said.split())
    versions = json.loads(answer(running, "show", "words", "--json"))["versions"]
    assert [each["version"] for each in versions] == [1, 2]
    assert "@" in versions[1]["by"] and versions[1]["spec"]["script"] == "better.py"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no-such-job", "SCRIPT"], "there is no job 'no-such-job'"),
        (["words", "missing.py"], "there is no file missing.py"),
        (["words", "SCRIPT", "--within", "soon"], "'soon' is not a duration"),
        (["words", "SCRIPT", "--restart", "always"], "'always' is no restart strategy"),
    ],
)
def test_bad_input_is_a_sentence_and_nothing_is_written(
    running: LaidOut, script: Path, words: list[str], sentence: str
) -> None:
    assert sentence in refusal(run(running, "upgrade", *[str(script) if word == "SCRIPT" else word for word in words]))
    assert wanted(running) == Wanted(Desired.RUN)


def test_what_ended_is_not_upgraded(running: LaidOut, script: Path) -> None:
    running.settle("j1", Phase.FINISHED, "it is done", attempt=2)
    assert "ended already: FINISHED" in refusal(run(running, "upgrade", "words", str(script)))
