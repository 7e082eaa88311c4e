"""Jobs on a real cluster: submitted, watched and steered by the command line, with real Spark drivers that leave proof."""

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.client.target import find
from holdfast.errors import HoldfastError
from tests.harness.cluster.cluster_window import Window
from tests.harness.cluster.command import holdfast
from tests.harness.cluster.process_witness import Life, children_of, command_of, stat_of

SCRIPTS = Path(__file__).parent / "scripts"
FIRST_BATCH_S = 240.0
"""Spark takes ten seconds to start where it has a core for itself, and a minute where it has a tenth of one."""
SPARK = {
    "spark.master": "local[1]",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
}
NOTHING: Mapping[str, str] = MappingProxyType({})
ENDED = ("FINISHED", "FAILED", "CANCELLED")


def until(predicate: Callable[[], Any], within_s: float, what: str, *, every_s: float = 0.2) -> Any:
    """As `eventually`, for what costs something to look at. On its way it puts up with a cluster that does not answer."""
    deadline = time.monotonic() + within_s
    seen: Any = None
    while True:
        try:
            seen = predicate()
            if seen:
                return seen
        except HoldfastError as error:
            seen = str(error)
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what} (last seen: {seen!r})")
        time.sleep(every_s)


class Jobs:
    """`options` say which cluster: `--dir DIR`, or `--connect HOSTS --cluster NAME`."""

    def __init__(self, directory: Path, storage: Path, *options: str) -> None:
        self.directory = directory
        self.storage = storage
        self._options = options
        self._window: Window | None = None

    def run(self, *arguments: str, timeout_s: float = 150) -> subprocess.CompletedProcess[str]:
        """One command, as a person would give it."""
        command, *rest = arguments
        return holdfast(command, *self._options, *rest, timeout_s=timeout_s)

    def ok(self, *arguments: str, timeout_s: float = 150) -> str:
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
        conf: Mapping[str, str] = NOTHING,
    ) -> str:
        """The id. `conf` comes on top of what every job of the tests has, unless it is none for Spark."""
        conf = {**(SPARK | {"spark.local.dir": str(self.directory / "spark")} if spark else {}), **conf}
        settings = itertools.chain.from_iterable(("--conf", f"{key}={value}") for key, value in conf.items())
        out = self.ok("submit", str(script), "--name", name, "--json", *settings, *options, "--", *arguments)
        return str(json.loads(out)["id"])

    # How they stand

    @property
    def window(self) -> Window:
        assert self._window is not None, "the jobs are used within `with`"
        return self._window

    def __enter__(self) -> "Jobs":
        said = dict(zip(self._options[::2], self._options[1::2], strict=True))
        directory = Path(said["--dir"]) if "--dir" in said else None
        self._window = Window(find(directory, said.get("--connect"), said.get("--cluster"))).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.window.__exit__()

    def __getitem__(self, id: str) -> dict[str, Any]:
        return self.window.jobs()[id]

    def listed(self) -> dict[str, dict[str, Any]]:
        """What a person is told, by id."""
        return {job["id"]: job for job in json.loads(self.ok("ls", "--all", "--json"))}

    def leader(self) -> tuple[str | None, int]:
        view = self.window.cluster()
        return view.leader, view.epoch

    def nodes(self) -> list[str]:
        return [id for id, _ in self.window.cluster().nodes]

    def events(self, id: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = json.loads(self.ok("events", id, "--json"))
        return events

    def in_phase(self, id: str, *phases: str, within_s: float = 60) -> dict[str, Any]:
        def there() -> dict[str, Any] | None:
            job = self[id]
            assert job["phase"] in phases or job["phase"] not in ENDED, job
            return job if job["phase"] in phases else None

        found: dict[str, Any] = until(there, within_s, f"{id} is {' or '.join(phases)}")
        return found

    # What they left on disk

    def checkpoint(self, id: str) -> Path:
        return self.storage / "checkpoints" / id

    def batches(self, id: str, log: str = "commits") -> list[int]:
        """Which batches were committed (or planned, in the log `offsets`), by the files of the checkpoint itself."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(int(path.name) for path in (self.checkpoint(id) / log).iterdir() if path.name.isdigit())
        return []

    def last_batch(self, id: str) -> int:
        return max(self.batches(id), default=-1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The processes of one attempt, from the driver upwards and downwards, by what the kernel says."""

    driver: Life

    @property
    def watchdog(self) -> int:
        return _parent(self.driver.pid, "holdfast.runner.watchdog")

    @property
    def runner(self) -> int:
        return _parent(self.watchdog, "holdfast.runner")

    @property
    def java(self) -> int:
        return next(pid for pid in children_of(self.driver.pid) if (stat := stat_of(pid)) is not None and stat.name == "java")


def _parent(pid: int, module: str) -> int:
    """After checking that it is what it should be: an orphan's parent is somebody whom no test may kill."""
    stat = stat_of(pid)
    assert stat is not None, f"process {pid} has ended"
    assert module in command_of(stat.parent), f"process {pid} is an orphan"
    return stat.parent
