"""`holdfast submit`: requests that are refused before anything is sent, and the records of accepted ones."""

import hashlib
import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId, is_valid_name
from holdfast.model.job import Progress, Spec
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import CatchUp, Schedule
from tests.harness.cluster.command import HOLDFAST
from tests.harness.command_line import error_message, run_command, run_json, run_ok, start_command, wait_for_stderr
from tests.harness.prepared_cluster import PreparedCluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.real

PROGRAM = "import sys\nprint('ü', sys.argv)\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "words.py"
    file.write_text(PROGRAM)
    return file


def spec_of(cluster: PreparedCluster, job: str) -> Spec:
    data = cluster.get(cluster.paths.job(JobId(job), "spec"))
    assert data is not None
    return decode(Spec, data, where="spec")


def jobs(cluster: PreparedCluster) -> list[str]:
    return sorted(cluster.run(lambda client: client.children(cluster.paths.jobs)))


def test_submit_creates_job_and_uploads_its_code(cluster: PreparedCluster, script: Path) -> None:
    done = run_command(cluster, "submit", str(script))
    assert done.returncode == 0, done.stderr
    id, name = done.stdout.split()
    assert name == "words" and is_valid_name(id)
    assert "no node leads at the moment; the job starts as soon as a node does" in done.stderr
    spec = spec_of(cluster, id)
    assert "@" in spec.by
    blob = hashlib.sha256(PROGRAM.encode()).hexdigest()
    assert replace(spec, by="") == Spec(name="words", script="words.py", blob=blob, restart_is_default=True)
    assert (cluster.storage / "blobs" / spec.blob).read_text() == PROGRAM


def test_socket_source_is_submitted_with_a_warning_on_stderr(cluster: PreparedCluster, script: Path) -> None:
    script.write_text('lines = spark.readStream.format("socket").load()\n')
    done = run_command(cluster, "submit", str(script), "--json")
    assert json.loads(done.stdout)["name"] == "words"
    assert "holdfast: words.py, line 1: the source 'socket' cannot be resumed" in done.stderr


def test_all_options_reach_the_spec(cluster: PreparedCluster, script: Path, tmp_path: Path) -> None:
    extra, packed = tmp_path / "extra.py", tmp_path / "packed.zip"
    extra.write_text("X = 1\n")
    packed.write_bytes(b"PK\5\6" + bytes(18))  # an archive without files
    job = run_json(
        cluster,
        *("submit", str(script), "--name", "w-1", "--restart", "fixed:3:10s", "--slots", "2"),
        *("--conf", "spark.x=a=b c", "--conf", "spark.y=", "--py-files", str(extra), "--py-files", str(packed)),
        *("--request-id", "r-1", "--json", "--", "--in", "a b", "", "ü", "--json", "-h"),
    )
    assert job["name"] == "w-1" and job["phase"] == "PENDING" and job["desired"] == "run"
    spec = spec_of(cluster, job["id"])
    assert (spec.restart, spec.slots) == ("fixed:3:10s", 2)
    assert spec.arguments[:6] == ("--in", "a b", "", "ü", "--json", "-h")
    assert spec.conf == (("spark.x", "a=b c"), ("spark.y", ""))
    assert [name for name, _ in spec.py_files] == ["extra.py", "packed.zip"]
    assert all((cluster.storage / "blobs" / blob).exists() for _, blob in spec.py_files)


def test_schedule_options_reach_the_spec(cluster: PreparedCluster, script: Path) -> None:
    options = ("--cron", "0 3 * * mon-fri", "--timezone", "Europe/Berlin", "--catch-up", "none", "--park-after", "3")
    job = run_json(cluster, "submit", str(script), *options)
    schedule = Schedule(cron="0 3 * * mon-fri", timezone="Europe/Berlin", catch_up=CatchUp.NONE, park_after=3)
    assert spec_of(cluster, job["id"]).schedule == schedule
    assert job["schedule"]["cron"] == "0 3 * * mon-fri" and job["schedule"]["next_run_at"] is None
    every = run_json(cluster, "submit", str(script), "--name", "every", "--every", "10m")
    assert spec_of(cluster, every["id"]).schedule == Schedule(600.0)
    assert run_json(cluster, "submit", str(script), "--name", "endless")["schedule"] is None


def test_schedule_is_refused_while_a_node_of_an_earlier_release_is_registered(cluster: PreparedCluster, script: Path) -> None:
    cluster.add_node("n1")
    printed_text = error_message(run_command(cluster, "submit", str(script), "--every", "10m"))
    assert "node n1, or a runner on it, has a release of Holdfast without schedules" in printed_text


@pytest.mark.parametrize(
    ("file", "name"),
    [("my words.py", "my-words"), ("ünïcode.py", "n-code"), ("-.py", "job"), (".py", "py"), ("x" * 100 + ".py", "x" * 64)],
)
def test_default_name_is_derived_from_the_script(cluster: PreparedCluster, tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text(PROGRAM)
    assert run_json(cluster, "submit", str(tmp_path / file))["name"] == name


BAD = [
    (["{dir}/none.py"], "there is no file"),
    (["{dir}"], "is a directory"),
    (["/dev/null"], "is not a regular file"),
    (["{dir}/pipe"], "is not a regular file"),
    (["{dir}/broken.py"], "is not Python, line 2"),
    (["{dir}/binary.py"], "is not Python"),
    (["{dir}/deep.py"], "is not Python"),
    (["{dir}/large.py"], "larger than"),
    (["{dir}/broken.yml"], "is not YAML, line 1"),
    (["{dir}/empty.yml"], "is not a pipeline specification"),
    (["{script}", "--restart", "sometimes"], "is not a restart strategy"),
    (["{script}", "--restart", "fixed:x:1s"], "not a number of restarts"),
    (["{script}", "--every", "0s"], "cannot be the interval of a schedule"),
    (["{script}", "--cron", "61 * * * *"], "minute: '61' is not a number from 0 to 59"),
    (["{script}", "--cron", "0 0 30 2 *"], "is never due"),
    (["{script}", "--cron", "@daily", "--timezone", "Mars/Olympus"], "no time zone 'Mars/Olympus'"),
    (["{script}", "--cron", "@daily", "--every", "1d"], "use --every or --cron, not both"),
    (["{script}", "--catch-up", "all"], "add --every or --cron"),
    (["{script}", "--name", "a/b"], "cannot be the name of a job"),
    (["{script}", "--name", ""], "cannot be the name of a job"),
    (["{script}", "--name", "ü"], "cannot be the name of a job"),
    (["{script}", "--name", "a" * 65], "cannot be the name of a job"),
    (["{script}", "--request-id", "a b"], "cannot be used as a request id"),
    (["{script}", "--conf", "spark.x"], "is not of the form KEY=VALUE"),
    (["{script}", "--conf", "=1"], "is not of the form KEY=VALUE"),
    (["{script}", "--conf", "x=1"], "is not a Spark setting"),
    (["{script}", "--conf", "holdfast.kafka.chek=30s"], "is not a setting of Holdfast; the settings are holdfast.guards.off"),
    (["{script}", "--conf", "holdfast.kafka.grace=soon"], "holdfast.kafka.grace: 'soon' is not a duration"),
    (["{script}", "--conf", "holdfast.kafka.check=0s"], "not more than zero"),
    (["{script}", "--conf", "holdfast.guards.off=kafka"], "unknown guard 'kafka'; the guards are: kafka-offsets"),
    (["{script}", "--conf", "holdfast.kafka.connector=../x"], "is not 'on', 'off' or a version"),
    (["{script}", "--conf", "spark.a=1", "--conf", "spark.a=2"], "given twice"),
    (["{script}", "--conf", "spark.sql.streaming.checkpointLocation=/x"], "cannot be set"),
    (["{script}", "--conf", "spark.submit.deployMode=cluster"], "can only be 'client'"),
    (["{script}", "--conf", "spark.master=k8s://https://10.0.0.1:6443"], "spark.kubernetes.container.image=IMAGE"),
    (["{script}", "--py-files", "{dir}/none.py"], "there is no file"),
    (["{script}", "--py-files", "{dir}/a.py,{dir}/b.py"], "once for each file"),
    (["{script}", "--py-files", "{dir}/broken.py"], "is not Python"),
    (["{script}", "--py-files", "{dir}/data.csv"], "cannot be one of --py-files"),
    (["{script}", "--py-files", "{dir}/broken.zip"], "it is not a zip archive"),
    (["{script}", "--py-files", "{script}"], "have the same name"),
    (["{script}", "--restore", "j1"], "there is no job 'j1'"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=range(len(BAD)))
def test_invalid_request_is_refused_before_anything_is_sent(
    cluster: PreparedCluster, script: Path, tmp_path: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "broken.py").write_text("x = 1\nx = (\n")
    (tmp_path / "binary.py").write_bytes(b"\x00\x01\xff")
    (tmp_path / "broken.yml").write_text("name: [")
    (tmp_path / "empty.yml").write_text("")
    (tmp_path / "deep.py").write_text("(" * 100_000 + ")" * 100_000)
    (tmp_path / "data.csv").write_text("1")
    (tmp_path / "broken.zip").write_text("not an archive")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(100_000_000)
    printed_text = [argument.format(dir=tmp_path, script=script) for argument in arguments]
    assert says in error_message(run_command(cluster, "submit", *printed_text))
    assert jobs(cluster) == []


@pytest.mark.parametrize("options", [["--slots", "0"], ["--slots", "x"], ["--nope"]])
def test_wrong_usage_is_exit_code_2(cluster: PreparedCluster, script: Path, options: list[str]) -> None:
    assert run_command(cluster, "submit", str(script), *options).returncode == 2
    assert run_command(cluster, "submit").returncode == 2


def test_arguments_that_are_not_text_are_refused(cluster: PreparedCluster, script: Path) -> None:
    command: list[str | bytes] = [*HOLDFAST, "submit", "--connect", cluster.connect, str(script), "--", b"\xff\xfe"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "not valid UTF-8" in error_message(done)


def test_too_large_spec_is_refused(cluster: PreparedCluster, script: Path) -> None:
    printed_text = error_message(run_command(cluster, "submit", str(script), "--", *("x" * 100_000 for _ in range(10))))
    assert "900,000 are allowed" in printed_text
    done = run_command(cluster, "submit", str(script), "--", *("x" * 100_000 for _ in range(8)))
    assert done.returncode == 0, done.stderr


def test_taken_name_is_refused_with_its_owner(cluster: PreparedCluster, script: Path) -> None:
    first = run_json(cluster, "submit", str(script))
    printed_text = error_message(run_command(cluster, "submit", str(script)))
    assert f"'words' belongs to job {first['id']}" in printed_text
    assert (
        "'holdfast upgrade words SCRIPT'" in printed_text
        and "'holdfast cancel words'" in printed_text
        and "stop" not in printed_text
    )
    assert jobs(cluster) == [first["id"]]


def test_repeated_request_returns_the_same_job(cluster: PreparedCluster, script: Path) -> None:
    first = run_json(cluster, "submit", str(script), "--request-id", "r-1")
    done = run_command(cluster, "submit", str(script), "--request-id", "r-1")
    assert done.returncode == 0
    assert done.stdout.split()[0] == first["id"]
    assert "was carried out before" in done.stderr
    script.write_text("something = 'else'\n")
    assert "already used for job" in error_message(run_command(cluster, "submit", str(script), "--request-id", "r-1"))


def test_concurrent_identical_requests_create_one_job(cluster: PreparedCluster, script: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda _: run_command(cluster, "submit", str(script), "--request-id", "r-1"), range(6)))
    assert {each.returncode for each in done} == {0}, [each.stderr for each in done]
    assert len({each.stdout for each in done}) == 1
    assert len(jobs(cluster)) == 1


def test_cluster_without_nodes_is_refused(cluster: PreparedCluster, script: Path) -> None:
    cluster.remove(cluster.paths.storage)
    assert "no node has ever joined this cluster" in error_message(run_command(cluster, "submit", str(script)))


def test_unmounted_storage_is_reported(cluster: PreparedCluster, script: Path) -> None:
    cluster.put(cluster.paths.storage, b"/nowhere/at/all")
    assert "check the location and that it is mounted on this machine" in error_message(
        run_command(cluster, "submit", str(script))
    )
    assert jobs(cluster) == []


@pytest.mark.parametrize("location", [b"", b"\xff", b"relative/path", b"ftp://x/y", b"/", b"\x1b[2J"])
def test_invalid_storage_location_is_reported(cluster: PreparedCluster, script: Path, location: bytes) -> None:
    cluster.put(cluster.paths.storage, location)
    error_message(run_command(cluster, "submit", str(script)))
    assert jobs(cluster) == []


# Waiting


def submitted_by(cluster: PreparedCluster) -> JobId:
    return JobId(wait_until(lambda: jobs(cluster), 60, "there is a job")[0])


def follow(
    cluster: PreparedCluster, script: Path, *states: tuple[Phase, str], batch: int | None = None
) -> tuple[int, str, str]:
    """Submit and wait, while a leader brings the job into these states."""
    with start_command(cluster, "submit", str(script), "--wait", "--json") as process:
        job = submitted_by(cluster)
        for phase, reason in states:
            cluster.write_state(job, phase, reason, attempt=1, node="n1")
        if batch is not None:
            cluster.write_lease(job, progress=Progress(batch))
        stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


def test_wait_ends_with_the_first_batch(cluster: PreparedCluster, script: Path) -> None:
    code, stdout, stderr = follow(cluster, script, (Phase.RUNNING, "attempt 1 runs on n1"), batch=0)
    assert code == 0, stderr
    assert json.loads(stdout)["progress"]["batch_id"] == 0
    assert re.search("RUNNING +attempt 1 runs on n1", stderr)


def test_wait_says_that_it_waits_for_the_first_batch(cluster: PreparedCluster, script: Path) -> None:
    with start_command(cluster, "submit", str(script), "--wait") as process:
        job = submitted_by(cluster)
        cluster.write_state(job, Phase.RUNNING, "attempt 1 runs on n1", attempt=1, node="n1")
        line = wait_for_stderr(process, "waiting for the first batch of words")
        assert "RUNNING" in line


def test_wait_succeeds_if_the_job_finishes(cluster: PreparedCluster, script: Path) -> None:
    assert follow(cluster, script, (Phase.FINISHED, "it came to its end"))[0] == 0


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.QUARANTINED, Phase.PARKED, Phase.CANCELLED])
def test_wait_fails_with_the_reason(cluster: PreparedCluster, script: Path, phase: Phase) -> None:
    code, stdout, stderr = follow(cluster, script, (phase, "because of that"))
    assert code == 1
    assert stderr.splitlines()[-1].endswith(f"is {phase}: because of that")
    assert json.loads(stdout)["phase"] == phase


def test_interrupted_wait_leaves_the_job_running(cluster: PreparedCluster, script: Path) -> None:
    with start_command(cluster, "submit", str(script), "--wait") as process:
        job = submitted_by(cluster)
        assert process.stdout is not None
        assert job in process.stdout.readline()
        wait_for_stderr(process, "PENDING  ")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the job itself continues unchanged" in stderr
    assert run_ok(cluster, "ls").count(job) == 1
