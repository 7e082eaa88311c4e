"""The public API `holdfast.client`, against a real ZooKeeper server and a cluster whose znodes the test writes."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import holdfast.client
from holdfast.client import Cluster
from holdfast.errors import Refused
from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, DesiredRecord, Progress
from holdfast.model.phase import Phase
from tests.harness.node_stub import AttemptFiles, serve_logs
from tests.harness.prepared_cluster import SECRET, PreparedCluster

pytestmark = pytest.mark.real


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def api(cluster: PreparedCluster, notes: list[str]) -> Cluster:
    return holdfast.client.connect(connect=cluster.connect, on_note=notes.append)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    script = tmp_path / "count_words.py"
    script.write_text("print('hello')\n")
    return script


@pytest.fixture
def running(cluster: PreparedCluster) -> PreparedCluster:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    cluster.write_lease("j1", attempt=2, progress=Progress(batch_id=7))
    cluster.write_report("j1", attempt=2)
    return cluster


def read_desired(cluster: PreparedCluster, job: str) -> Desired:
    data = cluster.get(cluster.paths.job(JobId(job), "desired"))
    assert data is not None
    return decode(DesiredRecord, data, where="desired").desired


def test_submit_returns_job_and_stores_its_code(api: Cluster, cluster: PreparedCluster, script: Path, notes: list[str]) -> None:
    job = api.submit(script, arguments=["a", "b"], conf={"spark.ui.enabled": False}, slots=2, restart="never")
    assert (job.name, job.phase) == ("count_words", Phase.PENDING)
    assert job.spec is not None
    assert (job.spec.arguments, job.spec.slots, job.spec.restart) == (("a", "b"), 2, "never")
    assert job.spec.conf == (("spark.ui.enabled", "false"),)
    assert any(path.name == job.spec.blob for path in cluster.storage.rglob("*")), "the script is in the storage"
    assert any("no node leads" in note for note in notes)


def test_submit_with_same_request_id_returns_existing_job(api: Cluster, script: Path, notes: list[str]) -> None:
    first = api.submit(script, request_id="r1")
    assert api.submit(script, request_id="r1").id == first.id
    assert any("r1" in note for note in notes)


def test_submit_refuses_invalid_requests_before_it_uploads(api: Cluster, cluster: PreparedCluster, script: Path) -> None:
    with pytest.raises(Refused, match="slots"):
        api.submit(script, slots=0)
    with pytest.raises(Refused, match="there is no file"):
        api.submit("missing.py")
    with pytest.raises(Refused, match="spark"):
        api.submit(script, conf={"master": "local"})
    assert list(cluster.storage.iterdir()) == []


def test_jobs_lists_live_jobs_and_on_request_ended_ones(api: Cluster, running: PreparedCluster) -> None:
    running.submit("j2", name="old")
    running.write_state("j2", Phase.FINISHED, "the script ended", attempt=1)
    assert [job.name for job in api.jobs()] == ["words"]
    assert [job.name for job in api.jobs(ended=True)] == ["words", "old"]
    assert api.job_names() == ["words", "old"] or set(api.job_names()) == {"words", "old"}


def test_job_is_found_by_name_id_prefix_and_object(api: Cluster, cluster: PreparedCluster) -> None:
    cluster.submit("j123456", name="words")
    job = api.job("words")
    assert job.id == api.job("j123456").id == api.job("j1234").id == api.job(job).id
    with pytest.raises(Refused, match="there is no job 'sums'"):
        api.job("sums")


def test_events_returns_changes_of_one_job_or_of_all(api: Cluster, running: PreparedCluster) -> None:
    running.submit("j2", name="other")
    running.write_state("j2", Phase.PARKED, "stopped", attempt=1)
    assert [(event.job.name, event.event.phase) for event in api.events("words")] == [("words", Phase.RUNNING)]
    assert {event.job.name for event in api.events()} == {"words", "other"}


def test_stop_resume_and_cancel_change_the_desired_state(api: Cluster, running: PreparedCluster) -> None:
    stopped = api.stop("words")
    assert stopped.changed and not stopped.has_leader and stopped.job.id == "j1"
    assert read_desired(running, "j1") is Desired.STOP
    assert not api.stop("words").changed
    assert api.resume("words").changed
    assert read_desired(running, "j1") is Desired.RUN
    assert api.restart("words").changed
    api.cancel("words")
    assert read_desired(running, "j1") is Desired.CANCEL


def test_control_of_ended_job_is_refused(api: Cluster, cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.FINISHED, "the script ended", attempt=1)
    for call in (api.stop, api.cancel, api.restart, api.resume):
        with pytest.raises(Refused, match="has already ended"):
            call("words")


def test_wait_returns_job_once_the_condition_holds(api: Cluster, running: PreparedCluster) -> None:
    assert api.wait("words", until="first_batch").progress.batch_id == 7
    assert api.wait("words", until="running", timeout_s=5).attempt == 2
    with pytest.raises(Refused, match="cannot wait until"):
        api.wait("words", until="done")  # type: ignore[arg-type]  # invalid on purpose


def test_wait_reports_changes_and_times_out(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    changes: list[Phase | None] = []
    api = holdfast.client.connect(connect=cluster.connect, on_change=lambda job: changes.append(job.phase))
    with pytest.raises(holdfast.client.WaitTimeout, match=r"PENDING after 0\.1 s") as caught:
        api.wait("words", until="running", timeout_s=0.1)
    assert isinstance(caught.value, TimeoutError) and caught.value.job.id == "j1"
    assert changes == [Phase.PENDING]


def test_wait_fails_with_the_job_when_it_cannot_run_any_more(api: Cluster, cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.FAILED, "the script failed", attempt=1)
    with pytest.raises(holdfast.client.WaitFailed, match="the script failed") as caught:
        api.wait("words", until="first_batch")
    assert caught.value.job.phase is Phase.FAILED
    assert api.wait("words", until="ended").phase is Phase.FAILED


def test_wait_after_resume_ignores_that_the_job_is_still_parked(api: Cluster, cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.PARKED, "stopped", attempt=1)
    resumed = api.resume("words")
    with pytest.raises(holdfast.client.WaitTimeout):
        api.wait(resumed, timeout_s=0.1)


def test_logs_yields_lines_of_the_last_attempt(api: Cluster, running: PreparedCluster, tmp_path: Path) -> None:
    attempts = AttemptFiles(tmp_path / "n1")
    attempts.write("j1", 2, "one\ntwo ü\nincomplete".encode())
    with serve_logs(attempts, SECRET) as address:
        running.add_node("n1", address=address)
        assert list(api.logs("words")) == ["one", "two ü", "incomplete"]
        assert list(api.logs("words", tail=1)) == ["incomplete"]
        assert [output.attempt for output in api.log_output("words")] == [2]
        with pytest.raises(Refused, match="no attempt 3: it has had 2 attempts"):
            list(api.logs("words", attempt=3))


def test_closing_a_followed_log_stops_its_thread(api: Cluster, running: PreparedCluster, tmp_path: Path) -> None:
    attempts = AttemptFiles(tmp_path / "n1")
    attempts.write("j1", 2, b"one\n")
    with serve_logs(attempts, SECRET) as address:
        running.add_node("n1", address=address)
        output = api.log_output("words", follow=True)
        assert next(output).data == b"one\n"
        output.close()  # type: ignore[attr-defined]  # the iterator is a generator
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("holdfast-client")]


def test_upgrade_writes_next_version(api: Cluster, running: PreparedCluster, script: Path) -> None:
    script.write_text("print('other')\n")
    result = api.upgrade("words", script)
    assert result.version == 2 and "version 2" in result.effect
    assert api.upgrade("words", script).version is None


def test_compare_and_apply_submit_what_is_missing(api: Cluster, script: Path, tmp_path: Path) -> None:
    directory = tmp_path / "jobs"
    directory.mkdir()
    (directory / "words.toml").write_text(f'script = "{script}"\n')
    (change,) = api.compare(directory)
    assert (change.action, change.name) == ("+", "words")
    api.apply(change)
    assert [job.name for job in api.jobs()] == ["words"]
    assert [change.action for change in api.compare(directory)] == ["="]


def test_savepoint_of_job_without_batches_is_refused(api: Cluster, running: PreparedCluster) -> None:
    assert api.savepoints() == []
    with pytest.raises(Refused):
        api.savepoint("words")


def test_quarantined_job_can_be_listed_and_discarded(api: Cluster, running: PreparedCluster) -> None:
    running.submit("j2", name="broken")
    running.write_state("j2", Phase.QUARANTINED, "its spec cannot be read", attempt=0)
    running.write_quarantine("j2", "its spec cannot be read", part="spec", original=b"{")
    (quarantined,) = api.quarantine()
    assert (quarantined.id, quarantined.name, quarantined.original) == ("j2", "broken", b"{")
    api.discard(api.quarantined_job("j2"))
    assert api.quarantine() == []


def test_status_shows_zookeeper_and_that_nobody_leads(api: Cluster) -> None:
    status = api.status()
    assert status.view is not None and status.view.leader is None
    assert [server.mode for server in status.zookeeper] == ["standalone"]


def test_calls_work_inside_a_running_event_loop(api: Cluster, running: PreparedCluster, script: Path, tmp_path: Path) -> None:
    attempts = AttemptFiles(tmp_path / "n1")
    attempts.write("j1", 2, b"one\n")

    async def notebook_cell() -> tuple[list[str], str | None]:
        assert api.wait("words", until="running", timeout_s=5).attempt == 2
        job = api.submit(script, name="sums")
        api.cancel(job)
        return list(api.logs("words")), job.name

    with serve_logs(attempts, SECRET) as address:
        running.add_node("n1", address=address)
        assert asyncio.run(notebook_cell()) == (["one"], "sums")
    assert read_desired(running, api.job("sums").id) is Desired.CANCEL


def test_threads_can_share_a_cluster(api: Cluster, running: PreparedCluster) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert [job.id for job in pool.map(api.job, ["words"] * 8)] == ["j1"] * 8


def test_connect_finds_cluster_by_environment(cluster: PreparedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DIR", raising=False)
    monkeypatch.setenv("HOLDFAST_CONNECT", cluster.connect)
    with holdfast.client.connect() as api:
        assert api.jobs() == []


def test_importing_the_client_is_light() -> None:
    code = "import sys, holdfast.client; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyspark", "pyarrow", "kazoo", "asyncio", "rich", "click", "structlog", "starlette"} & set(loaded)


def test_every_public_name_can_be_imported() -> None:
    for name in holdfast.client.__all__:
        assert getattr(holdfast.client, name) is not None
