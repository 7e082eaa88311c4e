"""The attempts of one node, as its agent sees them: what stands on the disk, and which runners the kernel says are alive."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import Outcome
from holdfast.model.versions import Versions
from holdfast.node.attempts import AttemptName
from tests.sim.jobs.machine import AttemptFiles, SimProcess
from tests.sim.jobs.work import ended
from tests.sim.process import Process

if TYPE_CHECKING:
    from tests.sim.jobs.node import JobNode


class SimWorkshop:
    """A `holdfast.node.order_executor.Workshop`, for one agent. The next one finds the same disk."""

    def __init__(self, node: "JobNode", process: Process, ring: Callable[[], None]) -> None:
        self._node = node
        self._machine = node.machine
        self._process = process
        self._ring = ring
        self._watched: set[SimProcess] = set()

    def present(self) -> list[AttemptName]:
        return sorted(name for name, files in self._machine.disk.attempts.items() if not files.buried)

    def newest(self, job: JobId) -> Attempt:
        return max((name.attempt for name in self._machine.disk.attempts if name.job == job), default=Attempt(0))

    def _files(self, name: AttemptName) -> AttemptFiles:
        return self._machine.disk.attempts[name]

    def running(self, name: AttemptName) -> bool:
        runner = self._files(name).runner
        if runner is None or not runner.alive:
            return False
        self._watch(runner)
        return True

    def _watch(self, runner: SimProcess) -> None:
        if runner not in self._watched:
            self._watched.add(runner)
            runner.when_dead(self._process, self._ring)

    async def spawn(self, name: AttemptName, versions: Versions) -> None:
        """The directory first, then the process: whoever crashes between the two leaves one without a runner."""
        files = self._machine.disk.attempts[name] = AttemptFiles()
        await self._step()
        files.runner = self._node.start_runner(name, files, versions)
        self._watch(files.runner)

    async def end_tree(self, name: AttemptName) -> bool:
        """The watchdog first, so that it starts nothing any more; then whatever carries the nonce."""
        await self._step()
        watchdog = self._machine.watchdogs.get(name.nonce)
        if watchdog is not None:
            self._machine.kill(watchdog.process)
            if watchdog.driver is not None:
                await ended(watchdog.driver)
        return True

    def left_behind(self, name: AttemptName) -> Outcome | None:
        return self._files(name).outcome

    async def close_session(self, name: AttemptName) -> bool:
        session = self._files(name).session
        if session is None:
            return True
        await self._step()
        if self._node.reaches_zookeeper():
            self._node.world.zk.close_session(session)
        await asyncio.sleep(0.06)
        return self._node.world.zk.sessions.find(session) is None

    def bury(self, name: AttemptName) -> None:
        self._files(name).buried = True

    async def _step(self) -> None:
        """Where a pause or a crash may come between deciding and doing."""
        await asyncio.sleep(self._machine.random.uniform(0.0005, 0.01))
