"""Trial of a batch program: one job for each step, which is hit in the middle and must finish with the exact result."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.cluster.jobs import FINAL_PHASES, FIRST_BATCH_S, ClusterJobs, poll_until
from tests.programs.batch_data import BatchData, read_result
from tests.programs.catalogue import BatchProgram
from tests.programs.rows import describe_difference
from tests.programs.steps import EXACT, KILL, SAVEPOINT, STOP, UPGRADE, Say, describe_refusal, run_steps, write_next_version

FINISH_S = 300.0


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
        running = self._submit_and_wait_until_running()
        os.kill(running["driver_pid"], signal.SIGKILL)
        self._check_in_middle()
        finished = self._wait_for_exact_result(running["id"])
        assert finished["attempt"] == 2, f"two attempts, not {finished['attempt']}"
        return EXACT

    def _stop_and_resume(self) -> str:
        running = self._submit_and_wait_until_running()
        self._jobs.run_ok("stop", running["id"], "--wait")
        self._check_in_middle()
        self._jobs.run_ok("resume", running["id"])
        self._wait_for_exact_result(running["id"])
        return EXACT

    def _save(self) -> str:
        """Return what Holdfast answers: a batch program has no checkpoint."""
        running = self._submit_and_wait_until_running()
        answer = self._jobs.run("savepoint", running["id"], "--json")
        self._check_in_middle()
        self._wait_for_exact_result(running["id"])
        if answer.returncode == 0:
            return "a savepoint was made, although there is no checkpoint"
        label, checkpoint = f"{running['name']} ({running['id']})", str(self._jobs.checkpoint(running["id"]))
        return describe_refusal(answer.stderr, label, checkpoint)

    def _upgrade(self) -> str:
        running = self._submit_and_wait_until_running()
        changed = write_next_version(self._program.script, self._jobs.directory)
        self._jobs.run_ok("upgrade", running["id"], str(changed))
        self._check_in_middle()
        self._wait_for_exact_result(running["id"])
        versions = {line.count('"version":2') for file in self._output.glob("part-*") for line in file.read_text().splitlines()}
        assert versions == {1}, "the new version has written every row"
        return EXACT

    # Helpers

    def _submit_and_wait_until_running(self) -> dict[str, Any]:
        self._started += 1
        name = f"{self._program.name}-{self._started}"
        self._output = self._jobs.directory / f"{name}-output"
        arguments = [*self._data.arguments, "--output", str(self._output)]
        id = self._jobs.submit(self._program.script, name, *arguments)
        return self._jobs.wait_for_phase(id, "RUNNING", timeout_s=FIRST_BATCH_S)

    def _check_in_middle(self) -> None:
        assert not (self._output / "_SUCCESS").exists(), "the step comes after the end; it must come in the middle"

    def _wait_for_exact_result(self, id: str) -> dict[str, Any]:
        """Wait until the job is FINISHED, check its result and return its view."""

        def ended_job() -> dict[str, Any] | None:
            view = self._jobs[id]
            assert view["phase"] not in ("PARKED", "QUARANTINED"), f"{view['phase']}: {view['reason']}"
            return view if view["phase"] in FINAL_PHASES else None

        view: dict[str, Any] = poll_until(ended_job, FINISH_S, f"{id} ends")
        assert view["phase"] == "FINISHED", f"{view['phase']}: {view['reason']}"
        result = read_result(self._output)
        assert result == self._data.expected, describe_difference(self._data.expected, result)
        return view

    def _cancel_all(self) -> None:
        for id, job in self._jobs.list_jobs().items():
            if job["name"].startswith(f"{self._program.name}-") and job["phase"] not in FINAL_PHASES:
                self._jobs.run_ok("cancel", id, "--wait")
