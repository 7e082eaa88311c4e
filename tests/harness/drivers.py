"""Driver processes, started as a runner starts them, each in its own attempt directory."""

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

from tests.harness.waiting import wait_until

SRC = Path(__file__).parents[2] / "src"
EXAMPLES = Path(__file__).parents[2] / "examples"
DRIVER_TIMEOUT_S = 170.0
"""Time limit that allows for the start of Spark on a busy machine."""
SUBMIT_ARGUMENTS = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 --driver-memory 512m "
    "--conf spark.driver.extraJavaOptions='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
)


class DriverProcess:
    """Driver of one attempt. All attempts of a job share its checkpoint."""

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
        self.python_flags: tuple[str, ...] = ("-P",)
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
            "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS,
            "PYTHONPATH": str(SRC),
        }

    def write_script(self, source: str, name: str = "script.py") -> Path:
        path = self.code / name
        path.write_text(source, encoding="utf-8")
        return path

    def start(self, script: Path, *arguments: str, **variables: str) -> "DriverProcess":
        command = [sys.executable, *self.python_flags, "-m", "holdfast.driver.bootstrap", str(script), *arguments]
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
        return self.start(self.write_script(source), *arguments, **variables).wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait(self, within_s: float = DRIVER_TIMEOUT_S) -> int:
        """Wait for the exit. Return the exit code, or the negative signal number."""
        assert self._process is not None
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver did not end within {within_s:g} s:\n{self.output()[-3000:]}") from None

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def request_stop(self) -> None:
        (self.control / "stop").touch()

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for_output(self, text: str) -> None:
        wait_until(lambda: text in self.output() or not self.alive(), DRIVER_TIMEOUT_S, f"'{text}' in the log")
        assert text in self.output(), self.output()[-3000:]

    def exit_record(self) -> dict[str, Any]:
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
        """Kill the driver, its JVM, and its Python workers, which have process groups of their own."""
        while pids := list(_processes_with_nonce(self.nonce)):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self._process is not None:
                self._process.poll()
        if self._process is not None:
            self._process.wait(DRIVER_TIMEOUT_S)


def _processes_with_nonce(nonce: str) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if nonce.encode() in path.read_bytes():
                yield int(path.parent.name)


def list_batches(log: Path) -> list[int]:
    """Return the sorted batch ids in a checkpoint's `offsets` or `commits` folder."""
    return sorted(int(file.name) for file in log.iterdir() if file.name.isdigit()) if log.exists() else []
