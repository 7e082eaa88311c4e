"""Invariant 25 with real AvailableNow runs of Spark: each row once, although a process is killed every few runs."""

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.command import RunningCluster, start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, SCRIPTS, AttemptProcesses, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers
from tests.harness.cluster.streams import Feeder, read_committed_lines

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]

RUNS = int(os.environ.get("SCHEDULED_RUNS", "30"))
"""Runs with kills in between. Each starts Spark, which takes seconds."""
RUNS_BETWEEN_KILLS = 3
VICTIMS = ("driver", "runner", "leader")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("scheduled")
    try:
        yield directory
    finally:
        kill_leftovers(directory)


class ScheduledJob:
    def __init__(
        self, up: RunningCluster, jobs: ClusterJobs, observer: ProcessObserver, script: str, *arguments: str, every: str
    ) -> None:
        self.up = up
        self.jobs = jobs
        self.observer = observer
        options = ("--every", every, "--restart", "fixed:5:1s")
        spark = script == "available_now.py"
        self.id = jobs.submit(SCRIPTS / script, "scheduled", *arguments, options=options, spark=spark)

    def schedule(self) -> dict[str, Any]:
        schedule: dict[str, Any] = self.jobs[self.id]["schedule"]
        return schedule

    def ended_runs(self) -> int:
        last = self.schedule()["last_run"]
        return int(last["number"]) if last is not None else 0

    def wait_for_ended_run(self, number: int) -> None:
        poll_until(lambda: self.ended_runs() >= number, RUNS_BETWEEN_KILLS * FIRST_BATCH_S, f"the end of run {number}")

    def kill(self, victim: str) -> None:
        """Send SIGKILL to a process of the open run, or to the agent that leads."""
        driver = poll_until(lambda: self.observer.running_driver(self.id), FIRST_BATCH_S, "a driver")
        if victim == "leader":
            leader, _ = self.jobs.leader()
            assert leader is not None
            os.kill(self.up.node(leader)["agent_pid"], signal.SIGKILL)
        else:
            try:
                os.kill(driver.pid if victim == "driver" else AttemptProcesses(driver).runner, signal.SIGKILL)
            except (AssertionError, ProcessLookupError):
                return  # the run ended at this moment

    def run_with_kills(self) -> list[str]:
        """Kill a process after every few runs, and return the victims."""
        killed: list[str] = []
        while (ended := self.ended_runs()) < RUNS - 1:
            self.wait_for_ended_run(min(ended + RUNS_BETWEEN_KILLS, RUNS - 1))
            killed.append(VICTIMS[len(killed) % len(VICTIMS)])
            self.kill(killed[-1])
        return killed

    def stop_and_check_history(self) -> dict[str, Any]:
        """Stop the job, check its runs and that no two of its processes overlapped, and return its JSON."""
        self.jobs.run_ok("stop", self.id)
        shown: dict[str, Any] = json.loads(self.jobs.run_ok("show", self.id, "--json"))
        _check_history(shown)
        assert not self.observer.overlaps
        assert f"{shown['schedule']['runs']} runs" in self.jobs.run_ok("show", self.id)
        return shown


def describe(shown: dict[str, Any], killed: list[str]) -> str:
    outcomes = [run["outcome"] for run in shown["runs"]]
    retried = sum(run["attempts"] > 1 for run in shown["runs"])
    return (
        f"{shown['schedule']['runs']} runs, {shown['attempt']} attempts, {len(killed)} kills; the last {len(outcomes)} runs: "
        f"{outcomes.count('finished')} finished, {outcomes.count('failed')} failed, {retried} with several attempts"
    )


def test_scheduled_job_copies_each_row_once_although_processes_are_killed(
    directory: Path, report: Callable[[str], None]
) -> None:
    with (
        start_cluster(directory / "c", "--nodes", "2") as up,
        ProcessObserver(directory) as observer,
        Feeder(directory / "in") as feeder,
        ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
    ):
        output = directory / "output"
        job = ScheduledJob(up, jobs, observer, "available_now.py", str(feeder.directory), str(output), every="5s")
        killed = job.run_with_kills()
        with feeder.pause() as written:
            _wait_until_input_is_copied(job)
            assert read_committed_lines(output) == written, "each row once"
        shown = job.stop_and_check_history()
        report(f"scheduled: {describe(shown, killed)}; {sum(written.values())} rows, each once")


def test_short_runs_never_overlap_although_processes_are_killed(directory: Path, report: Callable[[str], None]) -> None:
    """The same without Spark, whose start takes most of the time."""
    ends = directory / "ends"
    with (
        start_cluster(directory / "short", "--nodes", "2") as up,
        ProcessObserver(directory) as observer,
        ClusterJobs(directory, directory / "short" / "storage", "--dir", str(up.directory)) as jobs,
    ):
        job = ScheduledJob(up, jobs, observer, "short_run.py", str(ends), every="1s")
        killed = job.run_with_kills()
        shown = job.stop_and_check_history()
        assert not Path(f"{ends}.overlaps").exists()
        finished = [int(line) for line in ends.read_text().split()]
        finished_set = set(finished)
        assert finished == sorted(finished_set), "each attempt ends once, in order"
        for run in shown["runs"]:
            last = run["first_attempt"] + run["attempts"] - 1
            earlier = range(run["first_attempt"], last + 1)
            assert run["outcome"] != "finished" or not finished_set.isdisjoint(earlier), run
        report(f"short runs: {describe(shown, killed)}")


def _wait_until_input_is_copied(job: ScheduledJob) -> None:
    """Wait for the end of a run that began after the last row was written: not the open run, but the next one."""
    number = job.ended_runs()
    job.wait_for_ended_run(number + 2)


def _check_history(shown: dict[str, Any]) -> None:
    runs, numbers = shown["runs"], [run["number"] for run in shown["runs"]]
    is_open = shown["schedule"]["run"] is not None
    assert len(runs) == min(30, shown["schedule"]["runs"] - is_open)
    assert numbers == list(range(numbers[0], numbers[0] + len(runs)))
    due = [run["due"] for run in runs]
    assert due == sorted(set(due)), "no due time has two runs"
    for run, following in itertools.pairwise(runs):
        assert run["ended"] <= following["started"], "no overlap"
        assert run["first_attempt"] + run["attempts"] == following["first_attempt"], "each attempt belongs to one run"
