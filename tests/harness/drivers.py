"""Drivers as a runner starts them, each in an attempt directory of its own."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.harness.waiting import eventually

SRC = Path(__file__).parents[2] / "src"
EXAMPLES = Path(__file__).parents[2] / "examples"
WITHIN_S = 170.0
"""For a Spark that starts while both cores are busy."""
CONF = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 --driver-memory 512m "
    "--conf spark.driver.extraJavaOptions='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
)


class Driver:
    """One attempt. The next one of the same job shares its checkpoint."""

    def __init__(self, home: Path, *, name: str = "job", number: int = 1) -> None:
        self.home = home
        self.number = number
        self.directory = home / str(number)
        self.control = self.directory / "control"
        self.code = self.directory / "code"
        self.work = self.directory / "work"
        self.checkpoint = home / "checkpoint"
        self.log = self.directory / "driver.log"
        self.nonce = secrets.token_hex(8)
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None
        for directory in (self.control, self.code, self.work):
            directory.mkdir(parents=True)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.work),
            "HOLDFAST_NONCE": self.nonce,
            "HOLDFAST_JOB": f"id-of-{self._name}",
            "HOLDFAST_NAME": self._name,
            "HOLDFAST_ATTEMPT": str(self.number),
            "HOLDFAST_NODE": "n1",
            "HOLDFAST_CHECKPOINT": str(self.checkpoint),
            "HOLDFAST_CONTROL": str(self.control),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": CONF,
            "PYTHONPATH": str(SRC),
        }

    def put(self, source: str, name: str = "script.py") -> Path:
        path = self.code / name
        path.write_text(source, encoding="utf-8")
        return path

    def start(self, script: Path, *arguments: str, flags: tuple[str, ...] = ("-P",), **variables: str) -> "Driver":
        command = [sys.executable, *flags, "-m", "holdfast.driver.bootstrap", str(script), *arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.work,
                env={**self.environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def run(self, source: str, *arguments: str, **variables: str) -> int:
        return self.start(self.put(source), *arguments, **variables).wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait(self, within_s: float = WITHIN_S) -> int:
        """Its exit code, or a signal's number below zero."""
        assert self._process is not None
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver does not end:\n{self.output()[-3000:]}") from None

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask_to_stop(self) -> None:
        (self.control / "stop").touch()

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def until_printed(self, text: str) -> None:
        eventually(lambda: text in self.output() or not self.alive(), WITHIN_S, f"'{text}' in the log")
        assert text in self.output(), self.output()[-3000:]

    def end(self) -> dict[str, Any]:
        path = self.control / "end.json"
        assert path.exists(), self.output()[-3000:]
        end: dict[str, Any] = json.loads(path.read_text())
        return end

    def progress(self) -> dict[str, Any] | None:
        with contextlib.suppress(FileNotFoundError):
            progress: dict[str, Any] = json.loads((self.control / "progress.json").read_text())
            return progress
        return None

    def kill(self) -> None:
        """All of it: Java, and the Python workers in groups of their own."""
        while pids := list(_carrying(self.nonce)):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self._process is not None:
                self._process.poll()
        if self._process is not None:
            self._process.wait(WITHIN_S)


def _carrying(nonce: str) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if nonce.encode() in path.read_bytes():
                yield int(path.parent.name)


def batches(log: Path) -> list[int]:
    """The batches in a checkpoint's `offsets` or `commits`."""
    return sorted(int(file.name) for file in log.iterdir() if file.name.isdigit()) if log.exists() else []
