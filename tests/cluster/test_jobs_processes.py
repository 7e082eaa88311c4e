"""Every process that a job depends on is killed, paused or replaced, with real Spark drivers."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from holdfast.zk.session import session_file
from tests.harness.cluster.command import RunningCluster, holdfast, pause_process, start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, AttemptProcesses, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import ObservedProcess, ProcessObserver, kill_leftovers, read_stat
from tests.harness.cluster.streams import Feeder, StreamJob
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


class ProcessesScene:
    """Cluster of two nodes with two streaming jobs: one uses Spark's file sink, the other processes batches in Python."""

    def __init__(self, up: RunningCluster, jobs: ClusterJobs, copying: StreamJob, journaling: StreamJob) -> None:
        self.up = up
        self.jobs = jobs
        self.copying = copying
        self.journaling = journaling
        self.streams = (copying, journaling)

    def wait_for_both_nodes(self) -> None:
        poll_until(lambda: len(self.jobs.nodes()) == 2 and self.jobs.leader()[0], 60, "two nodes and a leader")

    def wait_until_healthy(self) -> None:
        self.wait_for_both_nodes()
        for stream in self.streams:
            stream.wait_until_healthy()

    def check_jobs(self) -> None:
        for stream in self.streams:
            stream.check_single_driver()
            stream.check_contiguous_batches()

    def drivers(self) -> list[ObservedProcess]:
        return [stream.attempt().driver for stream in self.streams]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessesScene]:
    directory = tmp_path_factory.mktemp("processes")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "2") as up,
            ProcessObserver(directory) as observer,
            Feeder(directory / "in") as feeder,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            copying = StreamJob(jobs, observer, feeder, "copying")
            yield ProcessesScene(up, jobs, copying, StreamJob(jobs, observer, feeder, "journaling", journal=True))
        leftovers = kill_leftovers(directory)
        assert not leftovers, "down leaves no process running"
    finally:
        kill_leftovers(directory)


@pytest.fixture
def scene(cluster: ProcessesScene) -> Iterator[ProcessesScene]:
    cluster.wait_until_healthy()
    yield cluster
    cluster.check_jobs()


def test_drivers_keep_their_pids_while_agents_are_killed_and_replaced(scene: ProcessesScene) -> None:
    drivers, restarts = scene.drivers(), [stream.view["restarts"] for stream in scene.streams]
    _, epoch = scene.jobs.leader()
    for id in ("n1", "n2"):
        _replace_process(scene, id, "agent_pid", signal.SIGKILL)
    for id in ("n1", "n2"):
        _replace_process(scene, id, "pid", signal.SIGTERM)
    assert scene.jobs.leader()[1] > epoch, "the leader was replaced"
    for stream in scene.streams:
        stream.wait_for_batches(2)
        stream.wait_until_healthy()
    assert scene.drivers() == drivers
    assert [stream.view["restarts"] for stream in scene.streams] == restarts


def _replace_process(scene: ProcessesScene, id: str, which: str, number: int) -> None:
    old = scene.up.node(id)[which]
    os.kill(old, number)
    wait_until(lambda: scene.up.node(id)[which] not in (old, None), 30, f"{id} has a new {which}")
    scene.wait_for_both_nodes()


def _read_session(scene: ProcessesScene, stream: StreamJob, attempt: AttemptProcesses) -> int:
    (file,) = scene.up.directory.glob(f"**/attempts/{stream.id}/{attempt.driver.attempt}/session.json")
    session = session_file.read(file)
    assert session is not None and session.agent_pid == attempt.runner
    return session.session_id


@pytest.mark.parametrize("victim", ["runner", "watchdog"])
def test_driver_restarts_after_the_death_of_runner_or_watchdog_before_the_session_expires(
    scene: ProcessesScene, victim: str, report: Callable[[str], None]
) -> None:
    stream = scene.copying
    attempt = stream.attempt()
    session = _read_session(scene, stream, attempt)
    pid = attempt.runner if victim == "runner" else attempt.watchdog
    killed_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    ended_at = stream.wait_until_gone(attempt.driver)
    next_driver = stream.wait_for_next_driver(attempt.driver)
    assert not scene.up.has_session_expired(session), "the next driver did not wait until the session expired"
    report(
        f"processes: without its {victim}, a driver was gone after {ended_at - killed_at:.1f} s, "
        f"and the next was there after {next_driver.first_seen - killed_at:.1f} s"
    )
    stream.wait_until_healthy()


@pytest.mark.parametrize("watchdog", [False, True], ids=["runner", "runner and watchdog"])
def test_driver_of_a_paused_runner_ends_before_the_next_one_starts(
    scene: ProcessesScene, watchdog: bool, report: Callable[[str], None]
) -> None:
    stream = scene.journaling
    attempt = stream.attempt()
    runner, session = attempt.runner, _read_session(scene, stream, attempt)
    stopped_at = time.monotonic()
    with pause_process(runner), pause_process(attempt.watchdog) if watchdog else contextlib.nullcontext():
        ended_at = stream.wait_until_gone(attempt.driver)
        assert not scene.up.has_session_expired(session), "the driver ends at the deadline, before the session expires"
        next_driver = stream.wait_for_next_driver(attempt.driver)
    paused = "runner and watchdog" if watchdog else "runner"
    report(f"processes: the driver of a paused {paused} was gone after {ended_at - stopped_at:.1f} s")
    assert next_driver.first_seen > ended_at
    wait_until(lambda: read_stat(runner) is None, 60, "the runner that lost its lease has ended")
    stream.wait_until_healthy()


@pytest.mark.parametrize("victim", ["driver", "java"])
def test_job_restarts_after_its_driver_or_jvm_is_killed(scene: ProcessesScene, victim: str) -> None:
    stream = scene.copying
    attempt = stream.attempt()
    (scratch,) = scene.up.directory.glob(f"**/attempts/{stream.id}/{attempt.driver.attempt}/tmp")
    assert list(scratch.glob("spark-*")), "Spark uses the scratch directory"
    os.kill(attempt.driver.pid if victim == "driver" else attempt.java, signal.SIGKILL)
    stream.wait_until_gone(attempt.driver)
    stream.wait_for_next_driver(attempt.driver)
    last_event = [event for event in scene.jobs.events(stream.id) if event["attempt"] == attempt.driver.attempt][-1]
    assert last_event["phase"] == "BACKOFF"
    assert "next attempt in" in last_event["reason"]
    if victim == "driver":
        assert "killed by SIGKILL" in last_event["reason"]
    else:
        assert "the JVM was killed by SIGKILL" in last_event["reason"]
    stream.wait_until_healthy()
    wait_until(lambda: not scratch.exists(), 30, "the scratch directory of the killed driver is removed")


def test_stopped_job_ends_at_a_batch_boundary_and_resumes_there(scene: ProcessesScene) -> None:
    stream = scene.journaling
    old = stream.attempt().driver
    poll_until(lambda: not stream.read_journal()[-1]["end"], 30, "a batch is in progress", interval_s=0.02)
    scene.jobs.run_ok("stop", stream.id, "--wait")
    parked = stream.view
    assert (parked["phase"], parked["desired"], parked["driver_pid"]) == ("PARKED", "stop", None)
    _check_batch_boundary(scene, stream)
    stream.wait_until_gone(old)
    scene.jobs.run_ok("resume", stream.id, "--wait", timeout_s=FIRST_BATCH_S)
    resumed = stream.wait_for_next_driver(old)
    stream.wait_until_healthy()
    _check_each_batch_once(stream, {old.attempt, resumed.attempt})

    poll_until(lambda: not stream.read_journal()[-1]["end"], 30, "a batch is in progress", interval_s=0.02)
    scene.jobs.run_ok("restart", stream.id, "--wait", timeout_s=FIRST_BATCH_S)
    restarted = stream.wait_for_next_driver(resumed)
    stream.wait_until_healthy()
    _check_each_batch_once(stream, {resumed.attempt, restarted.attempt})


def _check_batch_boundary(scene: ProcessesScene, stream: StreamJob) -> None:
    assert scene.jobs.batches(stream.id, "offsets")[-1] == scene.jobs.last_batch(stream.id)


def _check_each_batch_once(stream: StreamJob, attempts: set[int]) -> None:
    """Check that batch numbers are contiguous and not repeated."""
    batches = [line["batch"] for line in stream.read_journal() if line["attempt"] in attempts and not line["end"]]
    assert batches == list(range(batches[0], batches[0] + len(batches))), batches


def test_jobs_continue_from_their_checkpoints_after_down_and_up(scene: ProcessesScene) -> None:
    drivers, directory = scene.drivers(), str(scene.up.directory)
    assert holdfast("down", "--dir", directory).returncode == 0
    for stream, driver in zip(scene.streams, drivers, strict=True):
        assert read_stat(driver.pid) is None
        stream.wait_until_gone(driver)
    last = [scene.jobs.last_batch(stream.id) for stream in scene.streams]
    up = holdfast("up", "--dir", directory, "--nodes", "2", "--detach")
    assert up.returncode == 0, up.stderr
    for stream, before in zip(scene.streams, last, strict=True):
        stream.wait_until_healthy()
        stream.wait_for_batches()
        batches = scene.jobs.batches(stream.id)
        assert batches[batches.index(before) :] == list(range(before, batches[-1] + 1))


def test_cancelled_job_ends_at_once_and_cannot_be_restarted(scene: ProcessesScene) -> None:
    script = scene.jobs.directory / "sleeper.py"
    script.write_text("import time\ntime.sleep(3600)\n")
    id = scene.jobs.submit(script, "sleeper", spark=False)
    pid = poll_until(lambda: scene.jobs[id]["driver_pid"], 60, "the job has a driver")
    scene.jobs.run_ok("cancel", id, "--wait")
    assert read_stat(pid) is None
    view = scene.jobs[id]
    assert (view["phase"], view["reason"]) == ("CANCELLED", "a user cancelled the job")
    answer = scene.jobs.run("restart", id)
    assert answer.returncode == 1
    assert "has already ended: CANCELLED" in answer.stderr
