"""Spark jobs under `spark-submit` and under Holdfast, for benchmarks that compare the two."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from holdfast.node.drain import lock_holder_pid
from tests.harness.waiting import wait_until

SCRIPTS = Path(__file__).with_name("scripts")
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
TIMEOUT_S = 600.0
SAME_CONF = ("--conf", "spark.ui.enabled=false", "--conf", "spark.ui.showConsoleProgress=false")
"""Settings that Holdfast gives every job, for a job under `spark-submit`."""


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a user: bytecode is cached, and the workers use this interpreter."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, **more}


def spark_submit() -> str:
    spec = find_spec("pyspark")
    assert spec is not None and spec.submodule_search_locations
    return f"{spec.submodule_search_locations[0]}/bin/spark-submit"


@contextlib.contextmanager
def run_bare(script: str, *arguments: str, conf: Sequence[str] = (), log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a script under `spark-submit` until the end of the block, then kill its process group."""
    command = [spark_submit(), *conf, str(SCRIPTS / script), *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment(), stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class BenchCluster:
    """Cluster of one ZooKeeper server and one node, started with `holdfast up`."""

    def __init__(self, directory: Path, archives: str) -> None:
        self.directory = directory
        self._environment = environment(HOLDFAST_ARCHIVES=archives)

    @contextlib.contextmanager
    def running(self) -> Iterator["BenchCluster"]:
        self.holdfast("up", "--detach")
        try:
            yield self
        finally:
            self.holdfast("down")

    def holdfast(self, *arguments: str) -> str:
        name, *options = arguments
        line = [*HOLDFAST, name, "--dir", str(self.directory), *options]
        return subprocess.run(line, env=self._environment, check=True, capture_output=True, text=True).stdout

    @contextlib.contextmanager
    def job(self, script: str, *arguments: str, name: str, conf: Sequence[str] = ()) -> Iterator[None]:
        """Submit a job without waiting for it. Cancel it at the end of the block."""
        self.holdfast("submit", str(SCRIPTS / script), "--name", name, *conf, "--", *arguments)
        try:
            yield
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.holdfast("cancel", name)
            wait_until(lambda: not self._runners(), TIMEOUT_S, f"{name} has ended")

    def show(self, name: str) -> dict[str, Any]:
        job: dict[str, Any] = json.loads(self.holdfast("show", name, "--json"))
        return job

    def phase(self, name: str) -> str:
        return str(self.show(name)["phase"])

    def _runners(self) -> list[int]:
        """Return the pids of living runners, by the locks that they hold. A recorded pid may have been reused."""
        locks = self.directory.glob("nodes/*/attempts/*/*/runner.lock")
        return [pid for lock in locks if (pid := lock_holder_pid(lock)) is not None]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far, in seconds."""
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def format_median(values: Sequence[float], format: str = ".1f") -> str:
    """Format the median with the lowest and highest value."""
    return f"{statistics.median(values):{format}} ({min(values):{format}} to {max(values):{format}})"
