"""Sees to it that the drivers of this node find a class archive: has one made in a quiet moment, by a process of its own."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from holdfast.log import Log
from holdfast.runner.cds.archive import FAILED, NEVER
from holdfast.zk.embedded import tethered

SETTLE_S = 30.0
"""After an agent's start come the jobs that wait for it. Those first."""
STARTING_S = 30.0
"""How long a job that was just started is left alone."""
DEFERRALS_MAX = 20
"""Where jobs start all the time there is no better moment, and they have the most of it."""
LOOK_S = 3600.0
"""Java or Spark may have been exchanged."""
AGAIN_S = 600.0


class Archivist:
    def __init__(self, directory: Path, attempts: Path, log: Log, *, settle_s: float = SETTLE_S) -> None:
        self._directory = directory
        self._attempts = attempts
        self._log = log
        self._settle_s = settle_s

    async def run(self) -> None:
        """For ever, or until it is known that it will not work."""
        await asyncio.sleep(self._settle_s)
        while True:
            for _ in range(DEFERRALS_MAX):
                if not self._a_job_is_starting():
                    break
                await asyncio.sleep(STARTING_S)
            code = await self._make()
            if code == NEVER:
                return
            await asyncio.sleep(LOOK_S if code == 0 else AGAIN_S)

    def _a_job_is_starting(self) -> bool:
        """By the time at which the last directory was made for an attempt."""
        try:
            with os.scandir(self._attempts) as jobs:
                return any(0 <= time.time() - job.stat().st_mtime < STARTING_S for job in jobs)
        except OSError:
            return False

    async def _make(self) -> int:
        """The exit code. The process says itself what has become of it; it ends with this one, and its tree with it."""
        try:
            process = self._start()
            ended = os.pidfd_open(process.pid)
        except OSError as error:
            self._log.warning("no class archive", problem=f"a process for it cannot be started: {error.strerror}")
            return FAILED
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(ended, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(ended)
            os.close(ended)
            process.kill()
            process.wait()
        return process.returncode

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-P", "-m", "holdfast.runner.cds.build", str(self._directory)]
        return subprocess.Popen(
            tethered(command, signal.SIGKILL),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
