"""Streaming jobs that copy numbered lines, their input, and checks of their output and processes."""

import contextlib
import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.harness.cluster.jobs import EMPTY, FINAL_PHASES, FIRST_BATCH_S, SCRIPTS, AttemptProcesses, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import ObservedProcess, ProcessObserver


class Feeder:
    """Thread that writes the input of streaming jobs: one file of numbered lines after another."""

    INTERVAL_S = 0.5
    LINES_PER_FILE = 5

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stop = threading.Event()
        self._paused = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder")
        self._files = 0

    def __enter__(self) -> "Feeder":
        self.directory.mkdir()
        self._write_file()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._stop.wait(self.INTERVAL_S):
            if self._paused.is_set():
                self._idle.set()
            else:
                self._write_file()

    def _write_file(self) -> None:
        first = self._files * self.LINES_PER_FILE
        temporary = self.directory / f".{self._files}"
        temporary.write_text("".join(f"row {number}\n" for number in range(first, first + self.LINES_PER_FILE)))
        temporary.rename(self.directory / f"{self._files:06d}.txt")
        self._files += 1

    @contextlib.contextmanager
    def pause(self) -> Iterator[Counter[str]]:
        """Write no more lines until the end of the block. Yield all lines written so far."""
        self._idle.clear()
        self._paused.set()
        assert self._idle.wait(60)
        try:
            yield Counter(f"row {number}" for number in range(self._files * self.LINES_PER_FILE))
        finally:
            self._paused.clear()


def read_committed_lines(directory: Path, *, last_batch: int | None = None) -> Counter[str]:
    """Return the lines that Spark's file sink has committed, according to its log: all of them, or those up to a batch.

    A compact file of the log replaces all earlier files.
    """
    log = directory / "_spark_metadata"
    names = [path.name for path in log.iterdir() if not path.name.startswith(".")]
    if last_batch is not None:
        names = [name for name in names if int(name.partition(".")[0]) <= last_batch]
    compacted = max((int(name.partition(".")[0]) for name in names if name.endswith(".compact")), default=-1)
    relevant = [name for name in names if name == f"{compacted}.compact" or (name.isdigit() and int(name) > compacted)]
    lines: Counter[str] = Counter()
    for name in relevant:
        for entry in (log / name).read_text().splitlines()[1:]:
            path = unquote(json.loads(entry)["path"].removeprefix("file:"))
            lines.update(Path(path).read_text().splitlines())
    return lines


class StreamJob:
    """Streaming job of a test, with its output and journal."""

    def __init__(
        self,
        jobs: ClusterJobs,
        observer: ProcessObserver,
        feeder: Feeder,
        name: str,
        *,
        journal: bool = False,
        conf: Mapping[str, str] = EMPTY,
        options: tuple[str, ...] = (),
    ) -> None:
        self.jobs = jobs
        self.name = name
        self.output = jobs.directory / f"{name}-output"
        self.journal = jobs.directory / f"{name}-journal"
        self._lock = jobs.directory / f"{name}-lock"
        self._observer = observer
        paths = {
            "input": feeder.directory,
            "lock": self._lock,
            **({"journal": self.journal} if journal else {"output": self.output}),
        }
        arguments = itertools.chain.from_iterable((f"--{key}", str(path)) for key, path in paths.items())
        self.id = jobs.submit(SCRIPTS / "stream.py", name, *arguments, conf=conf, options=options)

    @property
    def view(self) -> dict[str, Any]:
        return self.jobs[self.id]

    def attempt(self) -> AttemptProcesses:
        driver = poll_until(lambda: self._observer.running_driver(self.id), 60, f"{self.name} has a driver")
        return AttemptProcesses(driver)

    def drivers(self) -> list[ObservedProcess]:
        return self._observer.drivers(self.id)

    def wait_for_next_driver(self, after: ObservedProcess, timeout_s: float = 90) -> ObservedProcess:
        def find_next_driver() -> ObservedProcess | None:
            return next((driver for driver in self.drivers() if driver.attempt > after.attempt), None)

        driver: ObservedProcess = poll_until(
            find_next_driver, timeout_s, f"{self.name} has a driver after attempt {after.attempt}", interval_s=0.02
        )
        return driver

    def wait_until_gone(self, driver: ObservedProcess, timeout_s: float = 60) -> float:
        """Wait until all processes of the attempt have ended. Return the time of the last observation."""
        when: float = poll_until(
            lambda: self._observer.tree_ended_at(driver.nonce), timeout_s, f"{driver} and its tree are gone", interval_s=0.02
        )
        return when

    def wait_for_batches(self, batches: int = 1, *, timeout_s: float = FIRST_BATCH_S) -> None:
        """Wait until the job commits more batches. Reads the checkpoint, so it also works without ZooKeeper."""
        last = self.jobs.last_batch(self.id)
        poll_until(
            lambda: self.jobs.last_batch(self.id) >= last + batches, timeout_s, f"{self.name} commits batches after {last}"
        )

    def wait_until_healthy(self, *, timeout_s: float = FIRST_BATCH_S) -> dict[str, Any]:
        """Wait until the job runs and its newest attempt has completed a batch. Return its view."""

        def healthy_view() -> dict[str, Any] | None:
            view, driver = self.view, self._observer.running_driver(self.id)
            assert view["phase"] not in FINAL_PHASES, view
            if view["phase"] != "RUNNING" or driver is None or driver.pid != view["driver_pid"]:
                return None
            return view if view["progress"]["batch_id"] is not None else None

        view: dict[str, Any] = poll_until(healthy_view, timeout_s, f"{self.name} healthy_view")
        return view

    def read_starts(self) -> list[dict[str, Any]]:
        return _read_json_lines(self._lock.with_name(f"{self._lock.name}.starts"))

    def check_single_driver(self) -> None:
        """Check that two drivers never ran at once, by the observed processes and by the lock that each driver takes."""
        assert not [pair for pair in self._observer.overlaps if pair[0].job == self.id]
        assert not self._lock.with_name(f"{self._lock.name}.overlaps").exists()
        attempts = [start["attempt"] for start in self.read_starts()]
        assert attempts == sorted(set(attempts)), "no attempt number runs twice"

    def check_contiguous_batches(self) -> None:
        batches = self.jobs.batches(self.id)
        assert batches == list(range(batches[0], batches[-1] + 1)), batches

    def read_journal(self) -> list[dict[str, Any]]:
        return _read_json_lines(self.journal)


def _read_json_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
