"""`holdfast upgrade`: the records it writes and the messages it prints."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, DesiredRecord, Spec
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from tests.harness.command_line import error_message, run_command, run_ok
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real
JOB = JobId("j1")


@pytest.fixture
def running(cluster: PreparedCluster) -> PreparedCluster:
    cluster.submit("j1", name="words", arguments=("--input", "in"))
    cluster.write_state("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    cluster.write_lease("j1", attempt=2)
    return cluster


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "better.py"
    file.write_text("print('better')\n")
    return file


def desired_record(cluster: PreparedCluster) -> DesiredRecord:
    data = cluster.get(cluster.paths.job(JOB, "desired"))
    assert data is not None
    return decode(DesiredRecord, data, where="desired")


def version(cluster: PreparedCluster, number: int) -> Spec:
    data = cluster.get(cluster.paths.spec(JOB, number))
    assert data is not None
    return decode(Spec, data, where="spec")


def test_omitted_options_keep_their_values(running: PreparedCluster, script: Path) -> None:
    printed_text = run_ok(running, "upgrade", "words", str(script))
    assert "words (j1) is running on n1 and stops after its current batch; then version 2 continues from there" in printed_text
    assert desired_record(running) == DesiredRecord(Desired.RUN, version=2)
    first, second = version(running, 1), version(running, 2)
    assert (running.storage / "blobs" / second.blob).read_bytes() == script.read_bytes()
    assert replace(second, script=first.script, blob=first.blob, by=first.by) == first


def test_warning_about_kafka_options_depends_on_the_settings_that_the_job_keeps(running: PreparedCluster, script: Path) -> None:
    script.write_text('rows = spark.readStream.format("kafka").option("failOnDataLoss", "false").load()\n')
    warning = "holdfast: better.py, line 1: Holdfast will not start a query with this Kafka source"
    done = run_command(running, "upgrade", "words", str(script), "--conf", "holdfast.guards.off=kafka-offsets", "--json")
    assert done.returncode == 0 and warning not in done.stderr
    kept = run_command(running, "upgrade", "words", str(script), "--json", "--", "again")
    assert kept.returncode == 0 and warning not in kept.stderr
    replaced = run_command(running, "upgrade", "words", str(script), "--conf", "spark.x=1", "--json")
    assert json.loads(replaced.stdout)["name"] == "words" and warning in replaced.stderr


def test_given_options_replace_values(running: PreparedCluster, script: Path) -> None:
    words = ["--restart", "never", "--conf", "spark.x=1", "--within", "90s", "--", "--input", "elsewhere"]
    run_ok(running, "upgrade", "words", str(script), *words)
    second = version(running, 2)
    assert (second.restart, second.conf, second.arguments) == ("never", (("spark.x", "1"),), ("--input", "elsewhere"))
    assert desired_record(running) == DesiredRecord(Desired.RUN, version=2, trial_s=90.0)


def test_identical_upgrade_creates_no_version(running: PreparedCluster, script: Path) -> None:
    run_ok(running, "upgrade", "words", str(script))
    assert "already has exactly this program" in run_ok(running, "upgrade", "words", str(script))
    assert running.get(running.paths.spec(JOB, 3)) is None


def test_json_is_the_job_as_listed(running: PreparedCluster, script: Path) -> None:
    job = json.loads(run_ok(running, "upgrade", "words", str(script), "--json"))
    assert [job] == json.loads(run_ok(running, "ls", "--json"))
    assert (job["id"], job["phase"], job["desired"]) == ("j1", "RUNNING", "run")
    assert desired_record(running).version == 2


def test_stopped_job_uses_the_new_version_when_resumed(running: PreparedCluster, script: Path) -> None:
    run_ok(running, "stop", "words")
    assert "is stopped; 'holdfast resume words' starts version 2" in run_ok(running, "upgrade", "words", str(script), "--wait")
    assert desired_record(running) == DesiredRecord(Desired.STOP, version=2)


def test_show_lists_versions_and_their_submitters(running: PreparedCluster, script: Path) -> None:
    run_ok(running, "upgrade", "words", str(script))
    running.write_state("j1", Phase.RUNNING, "attempt 3 runs on n1", attempt=3, node="n1", versions=Versions(2, fallback=1))
    printed_text = run_ok(running, "show", "words")
    assert "version 2" in printed_text and "until its first batch; if it fails, version 1 is started again" in " ".join(
        printed_text.split()
    )
    versions = json.loads(run_ok(running, "show", "words", "--json"))["versions"]
    assert [each["version"] for each in versions] == [1, 2]
    assert "@" in versions[1]["by"] and versions[1]["spec"]["script"] == "better.py"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no-such-job", "SCRIPT"], "there is no job 'no-such-job'"),
        (["words", "missing.py"], "there is no file missing.py"),
        (["words", "SCRIPT", "--within", "soon"], "'soon' is not a duration"),
        (["words", "SCRIPT", "--restart", "always"], "'always' is not a restart strategy"),
    ],
)
def test_bad_input_is_a_sentence_and_nothing_is_written(
    running: PreparedCluster, script: Path, words: list[str], sentence: str
) -> None:
    assert sentence in error_message(
        run_command(running, "upgrade", *[str(script) if word == "SCRIPT" else word for word in words])
    )
    assert desired_record(running) == DesiredRecord(Desired.RUN)


def test_ended_job_is_not_upgraded(running: PreparedCluster, script: Path) -> None:
    running.write_state("j1", Phase.FINISHED, "it is done", attempt=2)
    assert "has already ended: FINISHED" in error_message(run_command(running, "upgrade", "words", str(script)))
