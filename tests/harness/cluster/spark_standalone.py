"""Standalone Spark cluster on loopback: a Master and Workers, started from PySpark's jars."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.zk.embedded.java import find_jars, find_java
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.cluster.jobs import EMPTY
from tests.harness.cluster.process_observer import child_pids, read_command
from tests.harness.waiting import wait_until

READY_TIMEOUT_S = 120.0
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WORKER_MB = 700
"""Memory for one executor of the tests, but not for two."""

WORKER_PROPERTIES = {"spark.decommission.enabled": "true"}
"""Property with which SIGPWR decommissions a Worker."""


class SparkDaemon:
    """Master or Worker: one JVM and its log."""

    def __init__(self, directory: Path, kind: str, *arguments: str, properties: Mapping[str, str] = EMPTY) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "log"
        jars = find_jars()
        command = [str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
        command += [f"-D{key}={value}" for key, value in properties.items()]
        environment = {
            **os.environ,
            "SPARK_HOME": str(jars.parent),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_SCALA_VERSION": "2.13",  # Spark's start scripts would set it
        }
        with self.log.open("ab") as log:
            self._log_start = log.tell()
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
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def has_logged(self, text: str) -> bool:
        """Return True if the text was logged since this process started."""
        return text.encode() in self.log.read_bytes()[self._log_start :]

    def wait_until_logged(self, text: str) -> None:
        def text_logged() -> bool:
            assert self.is_alive, self.log.read_text(errors="replace")[-3000:]
            return self.has_logged(text)

        wait_until(text_logged, READY_TIMEOUT_S, f"'{text}' in {self.log}")

    def executors(self) -> list[int]:
        return [pid for pid in child_pids(self.pid) if EXECUTOR in read_command(pid)]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(READY_TIMEOUT_S)

    def kill(self) -> None:
        """Kill the daemon and its executors. Otherwise the executors of a dead Worker would end a little later."""
        for pid in (self.pid, *self.executors()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(READY_TIMEOUT_S)


class StandaloneCluster:
    """Master and Workers that run while the context is open. Without `recovery` a restarted Master forgets its applications."""

    def __init__(self, directory: Path, *, workers: int = 2, recovery: bool = False) -> None:
        self._directory = directory
        recovery_properties = {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(directory / "recovery"),
        }
        self._properties = recovery_properties if recovery else EMPTY
        self._port = Ports.pick().client
        self._count = workers
        self._started = 0
        self.master: SparkDaemon | None = None
        self.workers: list[SparkDaemon] = []

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self._port}"

    def __enter__(self) -> "StandaloneCluster":
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
        self.master = SparkDaemon(self._directory / "master", "master.Master", *arguments, properties=self._properties)
        self.master.wait_until_logged("I have been elected leader!")

    def kill_master(self) -> None:
        assert self.master is not None
        self.master.kill()

    def start_worker(self) -> None:
        self._started += 1
        directory = self._directory / f"worker-{self._started}"
        arguments = ("--host", LOOPBACK, "--webui-port", "0", "--cores", "1", "--memory", f"{WORKER_MB}m")
        where = ("--work-dir", str(directory / "work"), self.url)
        worker = SparkDaemon(directory, "worker.Worker", *arguments, *where, properties=WORKER_PROPERTIES)
        self.workers.append(worker)
        worker.wait_until_logged("Successfully registered with master")

    def decommission_worker(self, worker: SparkDaemon) -> None:
        """Ask a Worker to move its executors elsewhere, as a machine does that will be switched off."""
        os.kill(worker.pid, signal.SIGPWR)
        worker.wait_until_logged("Decommission worker")

    def kill_worker(self, worker: SparkDaemon) -> None:
        self.workers.remove(worker)
        worker.kill()

    def workers_with_executors(self) -> list[SparkDaemon]:
        """Return the Workers that have an executor."""
        return [worker for worker in self.workers if worker.executors()]
