"""Trial of a program that reads a socket. Documented limit: each attempt begins again with the lines sent to its connection."""

import json
import os
import signal
from typing import Any

from tests.harness.cluster.jobs import FINAL_PHASES, ClusterJobs, poll_until
from tests.programs.catalogue import SocketProgram
from tests.programs.inputs import SocketInput
from tests.programs.rows import VERSION, Row, describe_difference
from tests.programs.steps import KILL, SAVEPOINT, STOP, UPGRADE, Say, describe_refusal, run_steps, write_next_version

CATCH_UP_S = 900.0
BEGINS_AGAIN = "begins again, then exact"


class SocketTrial:
    def __init__(self, program: SocketProgram, jobs: ClusterJobs, input: SocketInput, say: Say) -> None:
        self._program = program
        self._jobs = jobs
        self._input = input
        self._say = say
        self._output = jobs.directory / f"{program.name}-output"
        self._id = ""

    def run(self) -> dict[str, str]:
        steps = {KILL: self._kill, STOP: self._stop_and_resume, SAVEPOINT: self._save, UPGRADE: self._upgrade}
        try:
            return run_steps(steps, self._say, self._start)
        finally:
            if self._id and self._view["phase"] not in FINAL_PHASES:
                self._jobs.run_ok("cancel", self._id, "--wait")

    # Steps

    def _start(self) -> None:
        arguments = [*self._input.arguments(), "--output", str(self._output)]
        self._id = self._jobs.submit(self._program.script, self._program.name, *arguments)
        self._say("submitted")
        self._count_next_connection(0)

    def _kill(self) -> str:
        before = self._input.connections
        os.kill(self._view["driver_pid"], signal.SIGKILL)
        self._count_next_connection(before)
        return BEGINS_AGAIN

    def _stop_and_resume(self) -> str:
        before = self._input.connections
        self._jobs.run_ok("stop", self._id, "--wait")
        self._wait_until_exact()
        self._jobs.run_ok("resume", self._id)
        self._count_next_connection(before)
        return BEGINS_AGAIN

    def _save(self) -> str:
        """Return the refusal of a savepoint: the query has no checkpoint that outlasts its attempt."""
        answer = self._jobs.run("savepoint", self._id, "--json")
        if answer.returncode != 0:
            return describe_refusal(answer.stderr, f"{self._program.name} ({self._id})", self._jobs.checkpoint(self._id))
        return f"made, with batches {json.loads(answer.stdout)['batches']}"

    def _upgrade(self) -> str:
        before = self._input.connections
        self._jobs.run_ok("upgrade", self._id, str(write_next_version(self._program.script, self._jobs.directory)))
        self._count_next_connection(before)
        assert {row[VERSION] for row in self._read_rows()} == {2}, "the new version has written the output"
        return BEGINS_AGAIN

    # Helpers

    @property
    def _view(self) -> dict[str, Any]:
        return self._jobs[self._id]

    def _count_next_connection(self, before: int) -> None:
        """Wait for a connection of the next attempt, send lines in two parts, and wait for exact counts after each."""
        self._input.wait_for_connection(before)
        for _ in range(2):
            self._input.add_phase()
            self._wait_until_exact()
        assert self._input.connections == before + 1, "one attempt makes one connection"

    def _read_rows(self) -> list[Row]:
        try:
            return self._program.output.read(self._output)
        except FileNotFoundError:
            return []

    def _wait_until_exact(self) -> None:
        expected = self._program.expected(self._input.rows)
        result = self._program.output.result
        try:
            poll_until(lambda: result(self._read_rows()) == expected, CATCH_UP_S, "the output is exact")
        except AssertionError as error:
            difference = describe_difference(expected, result(self._read_rows()))
            raise AssertionError(f"{difference}; {self._view['reason']}; {error}") from None
