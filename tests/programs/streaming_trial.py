"""Trial of a streaming program: one job through a kill, a stop, a savepoint and an upgrade, each in the middle of its input."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.cluster.jobs import FINAL_PHASES, FIRST_BATCH_S, ClusterJobs, poll_until
from tests.programs.catalogue import StreamingProgram
from tests.programs.inputs import ProgramInput
from tests.programs.rows import VERSION, Result, Row, describe_difference
from tests.programs.steps import EXACT, KILL, SAVEPOINT, STOP, UPGRADE, Say, run_steps, write_next_version

CATCH_UP_S = 900.0
"""Time limit for exact output. A free machine needs a few seconds; one with a queue of 25 processes, minutes."""
BATCHES_BEFORE_FAULT = 2


class RunningProgram:
    """Job that runs the program. `earlier` has the rows that were written before the savepoint it continues from."""

    def __init__(self, jobs: ClusterJobs, program: StreamingProgram, id: str, output: Path, earlier: list[Row]) -> None:
        self.id = id
        self._jobs = jobs
        self._program = program
        self._output = output
        self._earlier = earlier

    @property
    def view(self) -> dict[str, Any]:
        return self._jobs[self.id]

    def last_batch(self) -> int:
        """Return the last committed batch. The script names no checkpoint, so Holdfast numbers its only query."""
        commits = self._jobs.checkpoint(self.id) / "query-1" / "commits"
        names = os.listdir(commits) if commits.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def read_rows(self, last_batch: int | None = None) -> list[Row]:
        try:
            limit = () if last_batch is None else (last_batch,)
            return [*self._earlier, *self._program.output.read(self._output, *limit)]
        except FileNotFoundError:
            return list(self._earlier)

    def result(self) -> Result:
        return self._program.output.result(self.read_rows())

    def has_version(self, number: int) -> bool:
        return any(row.get(VERSION) == number for row in self.read_rows())


class StreamingTrial:
    def __init__(
        self, program: StreamingProgram, jobs: ClusterJobs, input: ProgramInput, say: Say, conf: dict[str, str]
    ) -> None:
        self._program = program
        self._jobs = jobs
        self._input = input
        self._say = say
        self._conf = conf
        self._job: RunningProgram

    def run(self) -> dict[str, str]:
        """Run all steps on one job, and return the text of each cell."""
        steps: dict[str, Callable[[], str]] = {
            KILL: self._kill,
            STOP: self._stop_and_resume,
            SAVEPOINT: self._save_and_restore,
            UPGRADE: self._upgrade,
        }
        try:
            return run_steps(steps, self._say, self._start)
        finally:
            self._cancel_all()

    # Steps

    def _start(self) -> None:
        self._job = self._submit(self._program.name, [])
        self._say("submitted")
        self._input.add_phase()
        self._wait_until_exact(self._job)

    def _kill(self) -> str:
        before = self._add_input_and_wait_for_middle()
        os.kill(before["driver_pid"], signal.SIGKILL)
        self._check_in_middle()
        self._wait_until_exact(self._job)
        after = self._job.view
        assert after["attempt"] == before["attempt"] + 1, f"one more attempt, not {after['attempt']}"
        return EXACT

    def _stop_and_resume(self) -> str:
        self._add_input_and_wait_for_middle(phases=2)
        self._jobs.run_ok("stop", self._job.id, "--wait")
        self._check_in_middle()
        self._input.add_phase()
        self._jobs.run_ok("resume", self._job.id, "--wait")
        self._wait_until_exact(self._job)
        return EXACT

    def _save_and_restore(self) -> str:
        """Restore a savepoint of the running job while that job continues. Both must be exact, each with its own output."""
        before = self._add_input_and_wait_for_middle(phases=2)
        savepoint = json.loads(self._jobs.run_ok("savepoint", self._job.id, "--json"))
        (batch,) = savepoint["batches"].values()
        output = self._program.output
        earlier = [] if output.has_everything else self._job.read_rows(batch)
        assert output.result(earlier) != self._expected(), "the savepoint is made in the middle"
        if output.copy_log(self._output_of(self._program.name), self._output_of(self._restored_name), batch):
            earlier = []
        restored = self._submit(self._restored_name, earlier, "--restore", savepoint["id"])
        self._wait_until_exact(self._job)
        self._wait_until_exact(restored)
        self._input.add_phase()
        self._wait_until_exact(self._job)
        self._wait_until_exact(restored)
        self._jobs.run_ok("cancel", restored.id, "--wait")
        assert self._job.view["driver_pid"] == before["driver_pid"], "the job of the savepoint was not disturbed"
        return EXACT

    def _upgrade(self) -> str:
        before = self._add_input_and_wait_for_middle(phases=2)
        changed = write_next_version(self._program.script, self._jobs.directory)
        self._jobs.run_ok("upgrade", self._job.id, str(changed))
        poll_until(lambda: self._job.view["attempt"] > before["attempt"], CATCH_UP_S, "the new version starts")
        self._input.add_phase()
        self._wait_until_exact(self._job)
        assert self._job.has_version(2), "the new version has written rows"
        self._jobs.run_ok("stop", self._job.id, "--wait")
        self._wait_until_exact(self._job)
        shown = json.loads(self._jobs.run_ok("show", self._job.id, "--json"))
        assert [version["version"] for version in shown["versions"]] == [1, 2], shown["versions"]
        return EXACT

    # Helpers

    @property
    def _restored_name(self) -> str:
        return f"{self._program.name}_restored"

    def _output_of(self, name: str) -> Path:
        return self._jobs.directory / f"{name}-output"

    def _submit(self, name: str, earlier: list[Row], *options: str) -> RunningProgram:
        output = self._output_of(name)
        arguments = [*self._input.arguments(), "--output", str(output)]
        id = self._jobs.submit(self._program.script, name, *arguments, options=options, conf=self._conf)
        return RunningProgram(self._jobs, self._program, id, output, earlier)

    def _add_input_and_wait_for_middle(self, *, phases: int = 1) -> dict[str, Any]:
        """Add input, and return the view of the job as soon as it has committed some of it."""
        before, view = self._job.last_batch(), self._job.view
        assert view["phase"] == "RUNNING", view["reason"]
        for _ in range(phases):
            self._input.add_phase()
        poll_until(
            lambda: self._job.last_batch() >= before + BATCHES_BEFORE_FAULT,
            CATCH_UP_S,
            f"{BATCHES_BEFORE_FAULT} batches after batch {before}",
            interval_s=0.02,
        )
        return view

    def _check_in_middle(self) -> None:
        assert self._job.result() != self._expected(), "the step comes after the last row; it must come in the middle"

    def _expected(self) -> Result:
        return self._program.expected(self._input.rows)

    def _wait_until_exact(self, job: RunningProgram) -> None:
        expected = self._expected()

        def is_exact() -> bool:
            view = job.view
            assert view["phase"] not in (*FINAL_PHASES, "QUARANTINED"), f"{view['phase']}: {view['reason']}"
            return job.result() == expected

        try:
            poll_until(is_exact, CATCH_UP_S if job.last_batch() >= 0 else FIRST_BATCH_S, "the output is exact")
        except AssertionError as error:
            difference = describe_difference(expected, job.result())
            raise AssertionError(f"{difference}; {job.view['phase']}: {job.view['reason']}; {error}") from None

    def _cancel_all(self) -> None:
        for id, job in self._jobs.list_jobs().items():
            if job["name"] in (self._program.name, self._restored_name) and job["phase"] not in FINAL_PHASES:
                self._jobs.run_ok("cancel", id, "--wait")
