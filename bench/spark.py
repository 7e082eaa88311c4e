"""Spark jobs, bare and supervised, for benchmarks that compare the two."""

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

from holdfast.node.drain import holder
from tests.harness.waiting import eventually

SCRIPTS = Path(__file__).with_name("scripts")
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
PATIENCE_S = 600.0
SAME_CONF = ("--conf", "spark.ui.enabled=false", "--conf", "spark.ui.showConsoleProgress=false")
"""What Holdfast sets for every job, for a bare one: so that it is not the web page that is measured."""


def environment(**more: str) -> dict[str, str]:
    """A user's: Python may keep what it has compiled, and the workers use the same one."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, **more}


def spark_submit() -> str:
    spec = find_spec("pyspark")
    assert spec is not None and spec.submodule_search_locations
    return f"{spec.submodule_search_locations[0]}/bin/spark-submit"


@contextlib.contextmanager
def bare(script: str, *arguments: str, conf: Sequence[str] = (), log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Under `spark-submit`; at the end it is killed with all it started, if it has not ended."""
    command = [spark_submit(), *conf, str(SCRIPTS / script), *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment(), stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Cluster:
    """One ZooKeeper server and one node, started by the command line."""

    def __init__(self, directory: Path, archives: str) -> None:
        self.directory = directory
        self._environment = environment(HOLDFAST_ARCHIVES=archives)

    @contextlib.contextmanager
    def up(self) -> Iterator["Cluster"]:
        self.holdfast("up", "--detach")
        try:
            yield self
        finally:
            self.holdfast("down")

    def holdfast(self, *words: str) -> str:
        command, arguments = words[0], words[1:]
        line = [*HOLDFAST, command, "--dir", str(self.directory), *arguments]
        return subprocess.run(line, env=self._environment, check=True, capture_output=True, text=True).stdout

    @contextlib.contextmanager
    def job(self, script: str, *arguments: str, name: str, conf: Sequence[str] = ()) -> Iterator[None]:
        """Submitted, and not waited for; cancelled at the end, if it has not ended."""
        self.holdfast("submit", str(SCRIPTS / script), "--name", name, *conf, "--", *arguments)
        try:
            yield
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.holdfast("cancel", name)
            eventually(lambda: not self._runners(), PATIENCE_S, f"{name} is gone")

    def shown(self, name: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.holdfast("show", name, "--json"))
        return told

    def phase(self, name: str) -> str:
        return str(self.shown(name)["phase"])

    def _runners(self) -> list[int]:
        """By the locks that they hold: a pid of one that has ended may be somebody else's by now."""
        locks = self.directory.glob("nodes/*/attempts/*/*/runner.lock")
        return [pid for lock in locks if (pid := holder(lock)) is not None]


def computed_s(pid: int) -> float:
    """What a process has had of processors so far."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


def figure(values: Sequence[float], format: str = ".1f") -> str:
    """The median, and how far the values lie apart."""
    return f"{statistics.median(values):{format}} ({min(values):{format}} to {max(values):{format}})"
