"""Every process that a job depends on is killed, paused or replaced, with real Spark drivers."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from holdfast.zk.session import session_file
from tests.harness.cluster.command import Up, holdfast, paused, started
from tests.harness.cluster.jobs import FIRST_BATCH_S, Jobs, until
from tests.harness.cluster.process_witness import Life, Sightings, stat_of, sweep
from tests.harness.cluster.streams import Attempt, Feeder, Stream
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


class Scene:
    """Two nodes, and two streaming jobs: one copies files by Spark's own sink, the batches of the other are made by Python."""

    def __init__(self, up: Up, jobs: Jobs, copying: Stream, journaling: Stream) -> None:
        self.up = up
        self.jobs = jobs
        self.copying = copying
        self.journaling = journaling
        self.streams = (copying, journaling)

    def both_nodes(self) -> None:
        until(lambda: len(self.jobs.nodes()) == 2 and self.jobs.leader()[0], 60, "two nodes and a leader")

    def well(self) -> None:
        self.both_nodes()
        for stream in self.streams:
            stream.well()

    def check(self) -> None:
        for stream in self.streams:
            stream.check_alone()
            stream.check_contiguous()

    def drivers(self) -> list[Life]:
        return [stream.attempt().driver for stream in self.streams]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("processes")
    try:
        with (
            started(directory / "c", "--nodes", "2") as up,
            Sightings(directory) as seen,
            Feeder(directory / "in") as feeder,
            Jobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            copying = Stream(jobs, seen, feeder, "copying")
            yield Scene(up, jobs, copying, Stream(jobs, seen, feeder, "journaling", journal=True))
        left = sweep(directory)
        assert not left, "down leaves nothing running"
    finally:
        sweep(directory)


@pytest.fixture
def scene(cluster: Scene) -> Iterator[Scene]:
    cluster.well()
    yield cluster
    cluster.check()


def test_drivers_keep_their_pids_while_every_agent_is_killed_and_upgraded_and_leaders_change(scene: Scene) -> None:
    drivers, restarts = scene.drivers(), [stream.view["restarts"] for stream in scene.streams]
    _, epoch = scene.jobs.leader()
    for id in ("n1", "n2"):
        _replaced(scene, id, "agent_pid", signal.SIGKILL)
    for id in ("n1", "n2"):
        _replaced(scene, id, "pid", signal.SIGTERM)
    assert scene.jobs.leader()[1] > epoch, "each of them has led, and was killed or stopped"
    for stream in scene.streams:
        stream.advances(2)
        stream.well()
    assert scene.drivers() == drivers
    assert [stream.view["restarts"] for stream in scene.streams] == restarts


def _replaced(scene: Scene, id: str, which: str, number: int) -> None:
    old = scene.up.node(id)[which]
    os.kill(old, number)
    eventually(lambda: scene.up.node(id)[which] not in (old, None), 30, f"another {which} of {id}")
    scene.both_nodes()


def _session_of(scene: Scene, stream: Stream, attempt: Attempt) -> int:
    (file,) = scene.up.directory.glob(f"**/attempts/{stream.id}/{attempt.driver.attempt}/session.json")
    session = session_file.read(file)
    assert session is not None and session.agent_pid == attempt.runner
    return session.session_id


@pytest.mark.parametrize("victim", ["runner", "watchdog"])
def test_a_driver_ends_with_its_runner_or_watchdog_and_runs_again_without_waiting_for_the_session(
    scene: Scene, victim: str, report: Callable[[str], None]
) -> None:
    stream = scene.copying
    attempt = stream.attempt()
    session = _session_of(scene, stream, attempt)
    pid = attempt.runner if victim == "runner" else attempt.watchdog
    killed_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    gone_at = stream.gone(attempt.driver)
    again = stream.next_driver(attempt.driver)
    assert not scene.up.expired(session), "nobody waited for the session, let alone for a margin after it"
    report(
        f"processes: without its {victim}, a driver was gone after {gone_at - killed_at:.1f} s, "
        f"and the next was there after {again.first_seen - killed_at:.1f} s"
    )
    stream.well()


def test_a_runner_paused_past_its_session_never_has_a_second_driver_beside_it(
    scene: Scene, report: Callable[[str], None]
) -> None:
    stream = scene.journaling
    attempt = stream.attempt()
    runner, session = attempt.runner, _session_of(scene, stream, attempt)
    stopped_at = time.monotonic()
    with paused(runner):
        gone_at = stream.gone(attempt.driver)
        assert not scene.up.expired(session), "at the deadline, not at the end of the session"
        again = stream.next_driver(attempt.driver)
    report(f"processes: the driver of a paused runner was gone after {gone_at - stopped_at:.1f} s")
    assert again.first_seen > gone_at
    eventually(lambda: stat_of(runner) is None, 60, "the runner that lost its lease ends")
    stream.well()


@pytest.mark.parametrize("victim", ["driver", "java"])
def test_a_job_whose_driver_or_java_is_killed_waits_a_little_and_runs_again(scene: Scene, victim: str) -> None:
    stream = scene.copying
    attempt = stream.attempt()
    (scratch,) = scene.up.directory.glob(f"**/attempts/{stream.id}/{attempt.driver.attempt}/tmp")
    assert list(scratch.glob("spark-*")), "Spark keeps there what it keeps only while it runs"
    os.kill(attempt.driver.pid if victim == "driver" else attempt.java, signal.SIGKILL)
    stream.gone(attempt.driver)
    stream.next_driver(attempt.driver)
    ended = [event for event in scene.jobs.events(stream.id) if event["attempt"] == attempt.driver.attempt][-1]
    assert ended["phase"] == "BACKOFF"
    assert "again in" in ended["reason"]
    if victim == "driver":
        assert "killed by SIGKILL" in ended["reason"]
    else:
        assert "Java" in ended["reason"], ended
    stream.well()
    eventually(lambda: not scratch.exists(), 30, "what a killed driver could not clear up is cleared up")


def test_a_stopped_job_ends_at_a_batch_boundary_and_goes_on_there(scene: Scene) -> None:
    stream = scene.journaling
    old = stream.attempt().driver
    until(lambda: not stream.journaled()[-1]["end"], 30, "a batch is being made", every_s=0.02)
    scene.jobs.ok("stop", stream.id, "--wait")
    parked = stream.view
    assert (parked["phase"], parked["desired"], parked["driver_pid"]) == ("PARKED", "stop", None)
    _at_a_boundary(scene, stream)
    stream.gone(old)
    scene.jobs.ok("resume", stream.id, "--wait", timeout_s=FIRST_BATCH_S)
    resumed = stream.next_driver(old)
    stream.well()
    _each_batch_once(stream, {old.attempt, resumed.attempt})

    until(lambda: not stream.journaled()[-1]["end"], 30, "a batch is being made", every_s=0.02)
    scene.jobs.ok("restart", stream.id, "--wait", timeout_s=FIRST_BATCH_S)
    restarted = stream.next_driver(resumed)
    stream.well()
    _each_batch_once(stream, {resumed.attempt, restarted.attempt})


def _at_a_boundary(scene: Scene, stream: Stream) -> None:
    assert scene.jobs.batches(stream.id, "offsets")[-1] == scene.jobs.last_batch(stream.id)


def _each_batch_once(stream: Stream, attempts: set[int]) -> None:
    """In the order of their numbers, without a hole, and none of them twice."""
    begun = [line["batch"] for line in stream.journaled() if line["attempt"] in attempts and not line["end"]]
    assert begun == list(range(begun[0], begun[0] + len(begun))), begun


def test_down_and_up_brings_every_job_back_from_its_checkpoint(scene: Scene) -> None:
    drivers, directory = scene.drivers(), str(scene.up.directory)
    assert holdfast("down", "--dir", directory).returncode == 0
    for stream, driver in zip(scene.streams, drivers, strict=True):
        assert stat_of(driver.pid) is None
        stream.gone(driver)
    last = [scene.jobs.last_batch(stream.id) for stream in scene.streams]
    up = holdfast("up", "--dir", directory, "--nodes", "2", "--detach")
    assert up.returncode == 0, up.stderr
    for stream, before in zip(scene.streams, last, strict=True):
        stream.well()
        stream.advances()
        batches = scene.jobs.batches(stream.id)
        assert batches[batches.index(before) :] == list(range(before, batches[-1] + 1))


def test_a_cancelled_job_ends_at_once_and_for_good(scene: Scene) -> None:
    script = scene.jobs.directory / "sleeper.py"
    script.write_text("import time\ntime.sleep(3600)\n")
    id = scene.jobs.submit(script, "sleeper", spark=False)
    pid = until(lambda: scene.jobs[id]["driver_pid"], 60, "it has a driver")
    scene.jobs.ok("cancel", id, "--wait")
    assert stat_of(pid) is None
    view = scene.jobs[id]
    assert (view["phase"], view["reason"]) == ("CANCELLED", "a person cancelled it")
    again = scene.jobs.run("restart", id)
    assert again.returncode == 1
    assert "ended already: CANCELLED" in again.stderr
