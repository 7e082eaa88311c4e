"""Keeper of the class-data-sharing (CDS) archive of this node: builds it in a separate process while no job is starting.

The build process refuses to build while the machine is overloaded; the keeper then tries again later."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from holdfast.log import Log
from holdfast.runner.cds.archive import EXIT_RETRY_LATER, EXIT_UNSUPPORTED, PROC_OPTION
from holdfast.runner.cds.machine_load import PROC
from holdfast.zk.embedded import with_parent_death_signal

START_DELAY_S = 30.0
"""Delay after the agent's start, so that waiting jobs start first."""
JOB_START_S = 30.0
"""Time after an attempt's start during which no build begins."""
DEFERRALS_MAX = 20
"""Builds are deferred at most this often: a node that starts jobs continuously benefits most from the archive."""
CHECK_INTERVAL_S = 3600.0
"""Interval of checks for a changed version of Java or Spark."""
RETRY_S = 600.0
"""Time until the next build after a failed one, or after a build that the load of the machine prevented."""


class CdsKeeper:
    def __init__(
        self,
        directory: Path,
        attempts: Path,
        log: Log,
        *,
        start_delay_s: float = START_DELAY_S,
        retry_s: float = RETRY_S,
        proc: Path = PROC,
    ) -> None:
        self._directory = directory
        self._attempts = attempts
        self._log = log
        self._start_delay_s = start_delay_s
        self._retry_s = retry_s
        self._proc = proc

    async def run(self) -> None:
        """Build and refresh the archive forever. Return if archives can never work on this machine."""
        await asyncio.sleep(self._start_delay_s)
        while True:
            for _ in range(DEFERRALS_MAX):
                if not self._is_job_starting():
                    break
                await asyncio.sleep(JOB_START_S)
            code = await self._build_archive()
            if code == EXIT_UNSUPPORTED:
                return
            await asyncio.sleep(CHECK_INTERVAL_S if code == 0 else self._retry_s)

    def _is_job_starting(self) -> bool:
        """Return True if the directory of an attempt was created during the last `JOB_START_S` seconds."""
        try:
            with os.scandir(self._attempts) as jobs:
                return any(0 <= time.time() - job.stat().st_mtime < JOB_START_S for job in jobs)
        except OSError:
            return False

    async def _build_archive(self) -> int:
        """Run the build process and return its exit code. The process logs its result itself and dies with the agent."""
        try:
            process = self._start_build()
            pidfd = os.pidfd_open(process.pid)
        except OSError as error:
            self._log.warning("no class archive", problem=f"the build process cannot be started: {error.strerror}")
            return EXIT_RETRY_LATER
        loop, exited = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(pidfd, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            process.kill()
            process.wait()
        return process.returncode

    def _start_build(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-P", "-m", "holdfast.runner.cds.build", str(self._directory), PROC_OPTION, str(self._proc)]
        return subprocess.Popen(
            with_parent_death_signal(command, signal.SIGKILL),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
