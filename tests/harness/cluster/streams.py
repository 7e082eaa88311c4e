"""Streaming jobs that copy numbered lines for as long as a test lasts, and the proof that they leave."""

import contextlib
import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.harness.cluster.jobs import ENDED, FIRST_BATCH_S, NOTHING, SCRIPTS, Attempt, Jobs, until
from tests.harness.cluster.process_witness import Life, Sightings


class Feeder:
    """Numbered lines, one new file of them after the other, in a thread: what a streaming job of the tests reads."""

    EVERY_S = 0.5
    LINES = 5

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stop = threading.Event()
        self._resting = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder")
        self._files = 0

    def __enter__(self) -> "Feeder":
        self.directory.mkdir()
        self._put()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._stop.wait(self.EVERY_S):
            if self._resting.is_set():
                self._idle.set()
            else:
                self._put()

    def _put(self) -> None:
        first = self._files * self.LINES
        hidden = self.directory / f".{self._files}"
        hidden.write_text("".join(f"row {number}\n" for number in range(first, first + self.LINES)))
        hidden.rename(self.directory / f"{self._files:06d}.txt")
        self._files += 1

    @contextlib.contextmanager
    def resting(self) -> Iterator[Counter[str]]:
        """No more lines for a while; gives those that there are."""
        self._idle.clear()
        self._resting.set()
        assert self._idle.wait(60)
        try:
            yield Counter(f"row {number}" for number in range(self._files * self.LINES))
        finally:
            self._resting.clear()


def output_of(directory: Path) -> Counter[str]:
    """The lines that Spark's file sink has committed, by its own log: a compact file stands for all that was before it."""
    log = directory / "_spark_metadata"
    names = [path.name for path in log.iterdir() if not path.name.startswith(".")]
    compacted = max((int(name.partition(".")[0]) for name in names if name.endswith(".compact")), default=-1)
    chosen = [name for name in names if name == f"{compacted}.compact" or (name.isdigit() and int(name) > compacted)]
    lines: Counter[str] = Counter()
    for name in chosen:
        for entry in (log / name).read_text().splitlines()[1:]:
            path = unquote(json.loads(entry)["path"].removeprefix("file:"))
            lines.update(Path(path).read_text().splitlines())
    return lines


class Stream:
    """A streaming job of the tests, with all that it leaves behind."""

    def __init__(
        self,
        jobs: Jobs,
        sightings: Sightings,
        feeder: Feeder,
        name: str,
        *,
        journal: bool = False,
        conf: Mapping[str, str] = NOTHING,
        options: tuple[str, ...] = (),
    ) -> None:
        self.jobs = jobs
        self.name = name
        self.output = jobs.directory / f"{name}-output"
        self.journal = jobs.directory / f"{name}-journal"
        self._lock = jobs.directory / f"{name}-lock"
        self._sightings = sightings
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

    def attempt(self) -> Attempt:
        life = until(lambda: self._sightings.driver(self.id), 60, f"{self.name} has a driver")
        return Attempt(life)

    def drivers(self) -> list[Life]:
        return self._sightings.drivers(self.id)

    def next_driver(self, after: Life, within_s: float = 90) -> Life:
        def later() -> Life | None:
            return next((life for life in self.drivers() if life.attempt > after.attempt), None)

        life: Life = until(later, within_s, f"{self.name} has a driver after attempt {after.attempt}", every_s=0.02)
        return life

    def gone(self, driver: Life, within_s: float = 60) -> float:
        """When the last process of that attempt was seen last."""
        when: float = until(
            lambda: self._sightings.gone(driver.nonce), within_s, f"{driver} and its tree are gone", every_s=0.02
        )
        return when

    def advances(self, batches: int = 1, *, within_s: float = FIRST_BATCH_S) -> None:
        """By the commits in its checkpoint, so it can be told without ZooKeeper, too."""
        last = self.jobs.last_batch(self.id)
        until(lambda: self.jobs.last_batch(self.id) >= last + batches, within_s, f"{self.name} commits batches after {last}")

    def well(self, *, within_s: float = FIRST_BATCH_S) -> dict[str, Any]:
        """It runs, and its newest attempt has made a batch."""

        def runs() -> dict[str, Any] | None:
            view, driver = self.view, self._sightings.driver(self.id)
            assert view["phase"] not in ENDED, view
            if view["phase"] != "RUNNING" or driver is None or driver.pid != view["driver_pid"]:
                return None
            return view if view["progress"]["batch_id"] is not None else None

        view: dict[str, Any] = until(runs, within_s, f"{self.name} runs")
        return view

    def starts(self) -> list[dict[str, Any]]:
        return _lines(self._lock.with_name(f"{self._lock.name}.starts"))

    def check_alone(self) -> None:
        """There was never a second driver: by the kernel's evidence and by the lock that each of them takes."""
        assert not [pair for pair in self._sightings.overlaps if pair[0].job == self.id]
        assert not self._lock.with_name(f"{self._lock.name}.overlaps").exists()
        attempts = [start["attempt"] for start in self.starts()]
        assert attempts == sorted(set(attempts)), "no number runs twice"

    def check_contiguous(self) -> None:
        batches = self.jobs.batches(self.id)
        assert batches == list(range(batches[0], batches[-1] + 1)), batches

    def journaled(self) -> list[dict[str, Any]]:
        return _lines(self.journal)


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
