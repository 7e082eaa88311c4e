"""Trial of a batch program: one job for each step, which is hit in the middle and must finish with the exact result.

The JVM is paused as soon as Spark runs, so that no program ends before its step. A stop or an upgrade gives a job the time
`timing.stop_s` to end by itself. A program that ends within this time is FINISHED; a paused one does not.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.harness.cluster.command import pause_process
from tests.harness.cluster.jobs import FINAL_PHASES, FIRST_BATCH_S, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import child_pids, read_stat
from tests.programs.batch_data import BatchData, read_rows, round_rows
from tests.programs.catalogue import BatchProgram
from tests.programs.rows import VERSION, describe_difference
from tests.programs.steps import EXACT, KILL, SAVEPOINT, STOP, UPGRADE, Say, describe_refusal, run_steps, write_next_version

FINISH_S = 900.0


class BatchTrial:
    def __init__(self, program: BatchProgram, jobs: ClusterJobs, say: Say) -> None:
        self._program = program
        self._jobs = jobs
        self._say = say
        self._directory = jobs.directory / f"{program.name}-input"
        self._data: BatchData
        self._started = 0
        self._output = Path()

    def run(self) -> dict[str, str]:
        steps: dict[str, Callable[[], str]] = {
            KILL: self._kill,
            STOP: self._stop_and_resume,
            SAVEPOINT: self._save,
            UPGRADE: self._upgrade,
        }
        try:
            return run_steps(steps, self._say, self._prepare)
        finally:
            self._cancel_all()

    # Steps

    def _prepare(self) -> None:
        self._directory.mkdir()
        self._data = self._program.prepare(self._directory)

    def _kill(self) -> str:
        with self._pause_in_middle() as job:
            os.kill(job["driver_pid"], signal.SIGKILL)
            poll_until(lambda: self._jobs[job["id"]]["attempt"] == 2, FINISH_S, "a second attempt")
        self._wait_for_exact_result(job["id"])
        return EXACT

    def _stop_and_resume(self) -> str:
        with self._pause_in_middle() as job:
            self._jobs.run_ok("stop", job["id"], "--wait", timeout_s=FINISH_S)
        self._jobs.run_ok("resume", job["id"], "--wait", timeout_s=FINISH_S)
        self._wait_for_exact_result(job["id"])
        return EXACT

    def _save(self) -> str:
        """Return the refusal of a savepoint: a batch program has no checkpoint."""
        with self._pause_in_middle() as job:
            answer = self._jobs.run("savepoint", job["id"], "--json")
        self._wait_for_exact_result(job["id"])
        if answer.returncode == 0:
            return "a savepoint was made, although there is no checkpoint"
        return describe_refusal(answer.stderr, f"{job['name']} ({job['id']})", self._jobs.checkpoint(job["id"]))

    def _upgrade(self) -> str:
        with self._pause_in_middle() as job:
            changed = write_next_version(self._program.script, self._jobs.directory)
            self._jobs.run_ok("upgrade", job["id"], str(changed))
            poll_until(lambda: self._jobs[job["id"]]["attempt"] == 2, FINISH_S, "an attempt with the new version")
        self._wait_for_exact_result(job["id"])
        versions = {row[VERSION] for row in read_rows(self._output)}
        assert versions == {2}, "the new version has written every row"
        return EXACT

    # Helpers

    @contextlib.contextmanager
    def _pause_in_middle(self) -> Iterator[dict[str, Any]]:
        """Submit another job, and pause its JVM when Spark runs until the end of the block. Yield the view of the job."""
        self._started += 1
        name = f"{self._program.name}-{self._started}"
        self._output = self._jobs.directory / f"{name}-output"
        arguments = [*self._data.arguments, "--output", str(self._output)]
        id = self._jobs.submit(self._program.script, name, *arguments)
        view = self._jobs.wait_for_phase(id, "RUNNING", timeout_s=FIRST_BATCH_S)
        with pause_process(_find_java(view["driver_pid"])):
            assert not (self._output / "_SUCCESS").exists(), "the program is paused in the middle"
            yield view

    def _wait_for_exact_result(self, id: str) -> dict[str, Any]:
        """Wait until the job is FINISHED, check its result and return its view."""

        def ended_job() -> dict[str, Any] | None:
            view = self._jobs[id]
            assert view["phase"] not in ("PARKED", "QUARANTINED"), f"{view['phase']}: {view['reason']}"
            return view if view["phase"] in FINAL_PHASES else None

        view: dict[str, Any] = poll_until(ended_job, FINISH_S, f"{id} ends")
        assert view["phase"] == "FINISHED", f"{view['phase']}: {view['reason']}"
        result = round_rows(read_rows(self._output))
        assert result == self._data.expected, describe_difference(self._data.expected, result)
        return view

    def _cancel_all(self) -> None:
        for id, job in self._jobs.list_jobs().items():
            if job["name"].startswith(f"{self._program.name}-") and job["phase"] not in FINAL_PHASES:
                self._jobs.run_ok("cancel", id, "--wait")


def _find_java(driver: int) -> int:
    return next(pid for pid in child_pids(driver) if (stat := read_stat(pid)) is not None and stat.name == "java")
