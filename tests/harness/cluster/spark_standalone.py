"""A standalone Spark cluster on loopback: a Master and Workers from PySpark's own jars, each ended by its pid."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.zk.embedded.java import find_jars, find_java
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.cluster.jobs import NOTHING
from tests.harness.cluster.process_witness import children_of, command_of
from tests.harness.waiting import eventually

READY_S = 120.0
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WORKER_MB = 700
"""Room for one executor of the tests, and not for two."""


class Daemon:
    """A Master or a Worker: one Java process, and what it logs."""

    def __init__(self, directory: Path, kind: str, *arguments: str, properties: Mapping[str, str] = NOTHING) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "log"
        jars = find_jars()
        command = [str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
        command += [f"-D{key}={value}" for key, value in properties.items()]
        environment = {
            **os.environ,
            "SPARK_HOME": str(jars.parent),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_SCALA_VERSION": "2.13",  # a Worker that was started without Spark's scripts does not know it
        }
        with self.log.open("ab") as log:
            self._began = log.tell()
            self._process = subprocess.Popen(
                [*command, f"org.apache.spark.deploy.{kind}", *arguments],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def logged(self, text: str) -> bool:
        """Since this process was started."""
        return text.encode() in self.log.read_bytes()[self._began :]

    def until_logged(self, text: str) -> None:
        def there() -> bool:
            assert self.alive, self.log.read_text(errors="replace")[-3000:]
            return self.logged(text)

        eventually(there, READY_S, f"'{text}' in {self.log}")

    def executors(self) -> list[int]:
        return [pid for pid in children_of(self.pid) if EXECUTOR in command_of(pid)]

    def stop(self) -> None:
        """In order."""
        self._process.terminate()
        self._process.wait(READY_S)

    def kill(self) -> None:
        """With the executors that it has started. An executor whose Worker is dead would end by itself, a little later."""
        for pid in (self.pid, *self.executors()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(READY_S)


class Standalone:
    """From `with` to its end. A Master without recovery that is started again knows nothing of its applications."""

    def __init__(self, directory: Path, *, workers: int = 2, recovery: bool = False) -> None:
        self._directory = directory
        remembering = {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(directory / "recovery"),
        }
        self._properties = remembering if recovery else NOTHING
        self._port = Ports.pick().client
        self._count = workers
        self._started = 0
        self.master: Daemon | None = None
        self.workers: list[Daemon] = []

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self._port}"

    def __enter__(self) -> "Standalone":
        try:
            self.start_master()
            for _ in range(self._count):
                self.start_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in [*self.workers, *([self.master] if self.master is not None else [])]:
            daemon.kill()

    def start_master(self) -> None:
        arguments = ("--host", LOOPBACK, "--port", str(self._port), "--webui-port", "0")
        self.master = Daemon(self._directory / "master", "master.Master", *arguments, properties=self._properties)
        self.master.until_logged("I have been elected leader!")

    def kill_master(self) -> None:
        assert self.master is not None
        self.master.kill()

    def start_worker(self) -> None:
        self._started += 1
        directory = self._directory / f"worker-{self._started}"
        arguments = ("--host", LOOPBACK, "--webui-port", "0", "--cores", "1", "--memory", f"{WORKER_MB}m")
        worker = Daemon(directory, "worker.Worker", *arguments, "--work-dir", str(directory / "work"), self.url)
        self.workers.append(worker)
        worker.until_logged("Successfully registered with master")

    def kill_worker(self, worker: Daemon) -> None:
        self.workers.remove(worker)
        worker.kill()

    def working(self) -> list[Daemon]:
        """The Workers that have an executor."""
        return [worker for worker in self.workers if worker.executors()]
