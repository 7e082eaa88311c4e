"""Jobs on a real cluster, submitted and controlled with the command line."""

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.client.connection.target import find_target
from holdfast.errors import HoldfastError
from tests.harness.cluster.cluster_reader import ClusterReader
from tests.harness.cluster.command import HOLDFAST, holdfast
from tests.harness.cluster.process_observer import ObservedProcess, child_pids, read_command, read_stat

SCRIPTS = Path(__file__).parent / "scripts"
FIRST_BATCH_S = 240.0
"""Spark starts in ten seconds on a free core, and in a minute on a busy machine."""
SPARK_CONF = {
    "spark.master": "local[1]",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
}
EMPTY: Mapping[str, str] = MappingProxyType({})
FINAL_PHASES = ("FINISHED", "FAILED", "CANCELLED")


def poll_until(predicate: Callable[[], Any], timeout_s: float, what: str, *, interval_s: float = 0.2) -> Any:
    """Poll like `wait_until`, but less often, and ignore HoldfastError while the cluster is unreachable."""
    deadline = time.monotonic() + timeout_s
    result: Any = None
    while True:
        try:
            result = predicate()
            if result:
                return result
        except HoldfastError as error:
            result = str(error)
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what} (last result: {result!r})")
        time.sleep(interval_s)


class ClusterJobs:
    """Jobs of the cluster named by `options`: `--dir DIR`, or `--connect HOSTS --cluster NAME`."""

    def __init__(self, directory: Path, storage: Path, *options: str) -> None:
        self.directory = directory
        self.storage = storage
        self._options = options
        self.command: Sequence[str] = HOLDFAST
        self._reader: ClusterReader | None = None

    def run(self, *arguments: str, timeout_s: float = 150) -> subprocess.CompletedProcess[str]:
        """Run one command on this cluster."""
        name, *rest = arguments
        return holdfast(name, *self._options, *rest, timeout_s=timeout_s, command=self.command)

    def run_ok(self, *arguments: str, timeout_s: float = 150) -> str:
        answer = self.run(*arguments, timeout_s=timeout_s)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def submit(
        self,
        script: Path,
        name: str,
        *arguments: str,
        options: tuple[str, ...] = (),
        spark: bool = True,
        conf: Mapping[str, str] = EMPTY,
    ) -> str:
        """Submit a job and return its id. `conf` extends the Spark settings of all tests; `spark=False` omits those."""
        conf = {**(SPARK_CONF | {"spark.local.dir": str(self.directory / "spark")} if spark else {}), **conf}
        settings = itertools.chain.from_iterable(("--conf", f"{key}={value}") for key, value in conf.items())
        out = self.run_ok("submit", str(script), "--name", name, "--json", *settings, *options, "--", *arguments)
        return str(json.loads(out)["id"])

    # State

    @property
    def reader(self) -> ClusterReader:
        assert self._reader is not None, "use ClusterJobs as a context manager"
        return self._reader

    def __enter__(self) -> "ClusterJobs":
        options = dict(zip(self._options[::2], self._options[1::2], strict=True))
        directory = Path(options["--dir"]) if "--dir" in options else None
        self._reader = ClusterReader(find_target(directory, options.get("--connect"), options.get("--cluster"))).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.__exit__()

    def __getitem__(self, id: str) -> dict[str, Any]:
        return self.reader.jobs()[id]

    def list_jobs(self) -> dict[str, dict[str, Any]]:
        """Return the jobs that `holdfast ls --all` prints, by id."""
        return {job["id"]: job for job in json.loads(self.run_ok("ls", "--all", "--json"))}

    def leader(self) -> tuple[str | None, int]:
        view = self.reader.cluster()
        return view.leader, view.epoch

    def nodes(self) -> list[str]:
        return [id for id, _ in self.reader.cluster().nodes]

    def events(self, id: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = json.loads(self.run_ok("events", id, "--json"))
        return events

    def wait_for_phase(self, id: str, *phases: str, timeout_s: float = 60) -> dict[str, Any]:
        def job_in_phase() -> dict[str, Any] | None:
            job = self[id]
            assert job["phase"] in phases or job["phase"] not in FINAL_PHASES, job
            return job if job["phase"] in phases else None

        job: dict[str, Any] = poll_until(job_in_phase, timeout_s, f"{id} is {' or '.join(phases)}")
        return job

    # Files

    def checkpoint(self, id: str) -> Path:
        return self.storage / "checkpoints" / id

    def batches(self, id: str, log: str = "commits") -> list[int]:
        """Return the batches in the checkpoint's commit log, or in another log such as `offsets`."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(int(path.name) for path in (self.checkpoint(id) / log).iterdir() if path.name.isdigit())
        return []

    def last_batch(self, id: str) -> int:
        return max(self.batches(id), default=-1)


@dataclass(frozen=True, slots=True)
class AttemptProcesses:
    """Processes of one attempt, found through /proc from the driver."""

    driver: ObservedProcess

    @property
    def watchdog(self) -> int:
        return _parent(self.driver.pid, "holdfast.runner.watchdog")

    @property
    def runner(self) -> int:
        return _parent(self.watchdog, "holdfast.runner")

    @property
    def java(self) -> int:
        return next(pid for pid in child_pids(self.driver.pid) if (stat := read_stat(pid)) is not None and stat.name == "java")


def _parent(pid: int, module: str) -> int:
    """Return the parent pid, after checking that it runs `module`: tests must not kill the parent of an orphan."""
    stat = read_stat(pid)
    assert stat is not None, f"process {pid} has ended"
    assert module in read_command(stat.parent), f"process {pid} is an orphan"
    return stat.parent
