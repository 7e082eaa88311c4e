"""Damaged checkpoints: the job repairs what is safe to repair and reports it as an event, else it is parked."""

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.harness.cluster.command import RunningCluster, pause_process, start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers
from tests.harness.cluster.streams import Feeder, StreamJob, read_committed_lines

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


class CheckpointScene:
    """Cluster of one node with a job that copies files."""

    def __init__(self, up: RunningCluster, jobs: ClusterJobs, feeder: Feeder, stream: StreamJob) -> None:
        self.up = up
        self.jobs = jobs
        self.feeder = feeder
        self.stream = stream
        self.checkpoint = jobs.checkpoint(stream.id)

    def wait_until_copied(self) -> None:
        """Wait until each line is in the output once and every batch is committed."""
        with self.feeder.pause() as lines:
            poll_until(lambda: self._all_copied(lines), FIRST_BATCH_S, "every line is copied once")

    def _all_copied(self, lines: Counter[str]) -> bool:
        with contextlib.suppress(FileNotFoundError):
            planned, committed = (self.jobs.batches(self.stream.id, log) for log in ("offsets", "commits"))
            return read_committed_lines(self.stream.output) == lines and planned == committed
        return False

    @contextlib.contextmanager
    def kill_between_batches(self) -> Iterator[None]:
        """Kill the job's processes between two batches. The next attempt starts after the block."""
        with self.feeder.pause() as lines:
            poll_until(lambda: self._all_copied(lines), FIRST_BATCH_S, "every line is copied once")
            attempt = self.stream.attempt()
            with pause_process(self.up.node("n1")["agent_pid"]):
                os.kill(attempt.runner, signal.SIGKILL)
                self.stream.wait_until_gone(attempt.driver)
                yield


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckpointScene]:
    directory = tmp_path_factory.mktemp("checkpoints")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "1") as up,
            ProcessObserver(directory) as observer,
            Feeder(directory / "in") as feeder,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield CheckpointScene(up, jobs, feeder, StreamJob(jobs, observer, feeder, "copying"))
    finally:
        kill_leftovers(directory)


def test_job_continues_after_a_torn_offsets_file_without_losing_or_repeating_lines(scene: CheckpointScene) -> None:
    stream = scene.stream
    stream.wait_until_healthy()
    with scene.kill_between_batches():
        torn = scene.jobs.last_batch(stream.id) + 1
        complete = (scene.checkpoint / "offsets" / str(torn - 1)).read_bytes()
        (scene.checkpoint / "offsets" / str(torn)).write_bytes(complete[: len(complete) // 2])
    stream.wait_until_healthy()
    reason = stream.view["reason"]
    aside = f"_holdfast/aside/offsets-{torn}-{stream.view['attempt']}"
    assert f"offsets/{torn} of {scene.checkpoint} was incomplete and was moved to {aside}" in reason
    repair, _, failure = reason.partition("; attempt ")
    assert repair.endswith(f"the query continues after batch {torn - 1}")
    assert repair in [event["reason"] for event in scene.jobs.events(stream.id)]
    assert " was lost " in failure
    assert (scene.checkpoint / aside).read_bytes() == complete[: len(complete) // 2]
    stream.wait_for_batches()
    scene.wait_until_copied()
    stream.check_contiguous_batches()
    stream.check_single_driver()


def test_missing_checkpoint_parks_the_job_until_it_is_restored(scene: CheckpointScene) -> None:
    stream = scene.stream
    stream.wait_until_healthy()
    moved = scene.checkpoint.with_name("moved")
    with scene.kill_between_batches():
        scene.checkpoint.rename(moved)
    view = scene.jobs.wait_for_phase(stream.id, "PARKED")
    assert f"the checkpoint {scene.checkpoint} cannot be trusted: it no longer exists, but batch " in view["reason"]
    assert f"run 'holdfast resume {stream.id}', run " in view["reason"]
    assert view["reason"].endswith(f"or run 'holdfast cancel {stream.id}'")
    scene.jobs.run_ok("resume", stream.id)
    poll_until(lambda: stream.view["attempt"] > view["attempt"], 60, "another attempt was made")
    assert "it no longer exists" in scene.jobs.wait_for_phase(stream.id, "PARKED")["reason"]
    attempts = [start["attempt"] for start in stream.read_starts()]
    assert max(attempts) < view["attempt"], "no driver was started meanwhile"
    assert not scene.checkpoint.exists(), "a claim would make it look like that of a job that has never run"
    moved.rename(scene.checkpoint)
    scene.jobs.run_ok("resume", stream.id)
    stream.wait_until_healthy()
    scene.wait_until_copied()
    stream.check_contiguous_batches()
    stream.check_single_driver()


def park_without_newest_commit(scene: CheckpointScene) -> str:
    """Stop the job, remove its newest commit, and resume it. Return the reason with which it is parked."""
    stream = scene.stream
    stream.wait_until_healthy()
    stream.wait_for_batches()
    scene.jobs.run_ok("stop", stream.id, "--wait")
    attempt, newest = stream.view["attempt"], scene.jobs.last_batch(stream.id)
    (scene.checkpoint / "commits" / str(newest)).unlink()
    (scene.checkpoint / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    scene.jobs.run_ok("resume", stream.id)
    view = poll_until(
        lambda: (view := stream.view)["attempt"] > attempt and view["phase"] == "PARKED" and view, 60, "the job is parked"
    )
    assert f"but batch {newest} was committed: batches would run twice" in view["reason"]
    return str(view["reason"])


def test_person_trusts_damage_once_it_was_shown_and_new_damage_parks_the_job_again(scene: CheckpointScene) -> None:
    """Spark repeats the batch whose commit is gone, and the file sink skips it, so the trust is justified."""
    stream = scene.stream
    for number in (1, 2):
        parked = park_without_newest_commit(scene)
        assert f"'holdfast resume {stream.id} --trust-checkpoint --reason TEXT'" in parked, "new damage is not covered"
        scene.jobs.run_ok("resume", stream.id, "--trust-checkpoint", "--reason", f"the sink has it: {number}")
        stream.wait_until_healthy()
        assert f"trusts the checkpoint although it is damaged: the sink has it: {number}" in stream.view["reason"]
    resumed = [event for event in scene.jobs.events(stream.id) if event["reason"].startswith("a user resumed the job; ")]
    assert [event["reason"].rpartition(" ")[2] for event in resumed][-1] == "2"
    assert ": the sink has it: 2" in scene.jobs.run_ok("show", stream.id)
    assert scene.jobs.list_jobs()[stream.id]["checkpoint_trust"]["findings"] == 1
    scene.wait_until_copied()
    stream.check_contiguous_batches()
    stream.check_single_driver()
