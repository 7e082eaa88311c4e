"""A checkpoint that was damaged while nobody looked: mended with an event where that is safe, and otherwise a parked job."""

import contextlib
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.harness.cluster.command import Up, paused, started
from tests.harness.cluster.jobs import FIRST_BATCH_S, Jobs, until
from tests.harness.cluster.process_witness import Sightings, sweep
from tests.harness.cluster.streams import Feeder, Stream, output_of

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


class Scene:
    """One node, and one job that copies files."""

    def __init__(self, up: Up, jobs: Jobs, feeder: Feeder, stream: Stream) -> None:
        self.up = up
        self.jobs = jobs
        self.feeder = feeder
        self.stream = stream
        self.checkpoint = jobs.checkpoint(stream.id)

    def copied(self) -> None:
        """Each line is in the output once, and every batch is committed."""

        with self.feeder.resting() as lines:
            until(lambda: self._all_copied(lines), FIRST_BATCH_S, "every line is copied once")

    def _all_copied(self, lines: Counter[str]) -> bool:
        with contextlib.suppress(FileNotFoundError):
            planned, committed = (self.jobs.batches(self.stream.id, log) for log in ("offsets", "commits"))
            return output_of(self.stream.output) == lines and planned == committed
        return False

    @contextlib.contextmanager
    def killed(self) -> Iterator[None]:
        """Its processes are killed between two batches, and the next attempt starts only after this."""
        with self.feeder.resting() as lines:
            until(lambda: self._all_copied(lines), FIRST_BATCH_S, "every line is copied once")
            attempt = self.stream.attempt()
            with paused(self.up.node("n1")["agent_pid"]):
                os.kill(attempt.runner, signal.SIGKILL)
                self.stream.gone(attempt.driver)
                yield


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("checkpoints")
    try:
        with (
            started(directory / "c", "--nodes", "1") as up,
            Sightings(directory) as seen,
            Feeder(directory / "in") as feeder,
            Jobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield Scene(up, jobs, feeder, Stream(jobs, seen, feeder, "copying"))
    finally:
        sweep(directory)


def test_a_torn_file_of_offsets_is_set_aside_and_the_job_goes_on_without_losing_or_repeating_a_line(scene: Scene) -> None:
    stream = scene.stream
    stream.well()
    with scene.killed():
        torn = scene.jobs.last_batch(stream.id) + 1
        whole = (scene.checkpoint / "offsets" / str(torn - 1)).read_bytes()
        (scene.checkpoint / "offsets" / str(torn)).write_bytes(whole[: len(whole) // 2])
    stream.well()
    reason = stream.view["reason"]
    aside = f"_holdfast/aside/offsets-{torn}-{stream.view['attempt']}"
    assert f"offsets/{torn} of {scene.checkpoint} was torn and is now {aside}" in reason
    assert reason.endswith(f"it goes on after batch {torn - 1}")
    assert reason in [event["reason"] for event in scene.jobs.events(stream.id)]
    assert (scene.checkpoint / aside).read_bytes() == whole[: len(whole) // 2]
    stream.advances()
    scene.copied()
    stream.check_contiguous()
    stream.check_alone()


def test_a_checkpoint_that_vanished_parks_the_job_which_goes_on_once_it_is_back(scene: Scene) -> None:
    stream = scene.stream
    stream.well()
    away = scene.checkpoint.with_name("away")
    with scene.killed():
        scene.checkpoint.rename(away)
    view = scene.jobs.in_phase(stream.id, "PARKED")
    assert f"its checkpoint {scene.checkpoint} cannot be trusted: there is none any more, and batch " in view["reason"]
    assert view["reason"].endswith(f"say 'holdfast resume {stream.id}', or 'holdfast cancel {stream.id}'")
    scene.jobs.ok("resume", stream.id)
    until(lambda: stream.view["attempt"] > view["attempt"], 60, "it was tried again")
    assert "there is none any more" in scene.jobs.in_phase(stream.id, "PARKED")["reason"]
    attempts = [start["attempt"] for start in stream.starts()]
    assert max(attempts) < view["attempt"], "no driver was started meanwhile"
    shutil.rmtree(scene.checkpoint)
    away.rename(scene.checkpoint)
    scene.jobs.ok("resume", stream.id)
    stream.well()
    scene.copied()
    stream.check_contiguous()
    stream.check_alone()
