"""Attempts of one node, as its agent sees them: directories on disk, and the runners that are alive."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import Outcome
from holdfast.model.versions import Versions
from holdfast.node.attempts import AttemptId
from tests.sim.jobs.cluster.driver_execution import kill_and_wait
from tests.sim.jobs.cluster.machine import SimAttemptDirectory, SimProcess
from tests.sim.process import Process

if TYPE_CHECKING:
    from tests.sim.jobs.cluster.job_node import JobNode


class SimAttemptOperations:
    """Simulated `holdfast.node.order_executor.AttemptOperations` of one agent. A later agent finds the same disk."""

    def __init__(self, node: "JobNode", process: Process, on_runner_exit: Callable[[], None]) -> None:
        self._node = node
        self._machine = node.machine
        self._process = process
        self._on_runner_exit = on_runner_exit
        self._watched: set[SimProcess] = set()

    def list_open(self) -> list[AttemptId]:
        return sorted(attempt_id for attempt_id, files in self._machine.disk.attempts.items() if not files.closed)

    def newest_attempt(self, job: JobId) -> Attempt:
        return max(
            (attempt_id.attempt for attempt_id in self._machine.disk.attempts if attempt_id.job == job), default=Attempt(0)
        )

    def _files(self, attempt_id: AttemptId) -> SimAttemptDirectory:
        return self._machine.disk.attempts[attempt_id]

    def is_running(self, attempt_id: AttemptId) -> bool:
        runner = self._files(attempt_id).runner
        if runner is None or not runner.alive:
            return False
        self._watch(runner)
        return True

    def _watch(self, runner: SimProcess) -> None:
        if runner not in self._watched:
            self._watched.add(runner)
            runner.on_exit(self._process, self._on_runner_exit)

    async def spawn(self, attempt_id: AttemptId, versions: Versions) -> None:
        """Create the directory, then start the runner. A crash in between leaves a directory without a runner."""
        files = self._machine.disk.attempts[attempt_id] = SimAttemptDirectory()
        await self._delay()
        files.runner = self._node.start_runner(attempt_id, files, versions)
        self._watch(files.runner)

    async def kill_runner(self, attempt_id: AttemptId) -> bool:
        await self._delay()
        runner = self._files(attempt_id).runner
        if runner is not None:
            self._machine.kill(runner)
        return True

    async def kill_tree(self, attempt_id: AttemptId) -> bool:
        """Kill the watchdog, so that it starts nothing afterwards, and then the driver."""
        await self._delay()
        watchdog = self._machine.watchdogs.get(attempt_id.nonce)
        if watchdog is not None:
            self._machine.kill(watchdog.process)
            if watchdog.driver is not None:
                await kill_and_wait(watchdog.driver)
        return True

    def read_outcome(self, attempt_id: AttemptId) -> Outcome | None:
        """Return the outcome of an attempt, or None. A damaged report may name an attempt that this node does not have."""
        files = self._machine.disk.attempts.get(attempt_id)
        return files.outcome if files is not None else None

    async def close_session(self, attempt_id: AttemptId) -> bool:
        session = self._files(attempt_id).session
        if session is None:
            return True
        await self._delay()
        if self._node.reaches_zookeeper():
            self._node.world.zk.close_session(session)
        await asyncio.sleep(0.06)
        return self._node.world.zk.sessions.find(session) is None

    def mark_closed(self, attempt_id: AttemptId) -> None:
        self._files(attempt_id).closed = True

    async def _delay(self) -> None:
        """Wait for a moment, so that a pause or a crash can happen between a decision and its effect."""
        await asyncio.sleep(self._machine.random.uniform(0.0005, 0.01))
