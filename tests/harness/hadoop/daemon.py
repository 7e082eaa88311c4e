"""One daemon of Hadoop: a JVM and its log."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.zk.embedded.java import find_java
from tests.harness.cluster.jobs import EMPTY
from tests.harness.kafka.jars import cached_jars
from tests.harness.waiting import wait_until

VERSION = "3.5.0"
"""Version of the Hadoop client in PySpark's jars."""
READY_TIMEOUT_S = 120.0
_ARTIFACTS = (
    f"org.apache.hadoop:hadoop-common:{VERSION}",
    f"org.apache.hadoop:hadoop-hdfs:{VERSION}",
    f"org.apache.hadoop:hadoop-yarn-server-resourcemanager:{VERSION}",
    f"org.apache.hadoop:hadoop-yarn-server-nodemanager:{VERSION}",
    f"org.apache.hadoop:hadoop-yarn-server-timelineservice:{VERSION}",
)
_OPENED = ("java.lang", "java.util", "java.net", "java.nio", "java.security", "sun.nio.ch")
"""Packages that Hadoop accesses by reflection."""


def hadoop_jars() -> Path:
    """Return the directory of the jars of all daemons. Raises Refused if it is not cached and cannot be downloaded."""
    return cached_jars(f"hadoop-{VERSION}", _ARTIFACTS, transitive=True)


def hadoop_command(configuration: Path, main_class: str, *arguments: str, heap_mb: int = 256) -> list[str]:
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    options = [f"-Xmx{heap_mb}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"]
    class_path = f"{configuration}:{hadoop_jars()}/*"
    return [str(find_java()), *options, *opened, "-cp", class_path, f"org.apache.hadoop.{main_class}", *arguments]


class HadoopDaemon:
    """NameNode, DataNode, ResourceManager or NodeManager. `start` may be called again after `kill`."""

    def __init__(
        self, directory: Path, configuration: Path, main_class: str, ready: str, *, properties: Mapping[str, str] = EMPTY
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log = directory / "log"
        self._ready = ready
        overrides = [f"-D{name}={value}" for name, value in properties.items()]
        self._command = hadoop_command(configuration, main_class, *overrides)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self._command,
                cwd=self.directory,
                env={**os.environ, "HADOOP_HOME": str(self.directory), "JAVA_HOME": str(find_java().resolve().parents[1])},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.is_alive, self.log.read_text(errors="replace")[-4000:]
            return self._ready.encode() in self.log.read_bytes()[self._log_start :]

        wait_until(ready, READY_TIMEOUT_S, f"'{self._ready}' in {self.log}")

    def kill(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(READY_TIMEOUT_S)
