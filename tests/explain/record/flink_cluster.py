"""Flink cluster in separate processes: a JobManager, a TaskManager, and Flink's client."""

import os
import re
import signal
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from holdfast.zk.embedded import with_parent_death_signal
from holdfast.zk.embedded.configuration import format_properties
from holdfast.zk.embedded.java import find_java
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.kafka.jars import cached_jars
from tests.harness.waiting import wait_until

VERSION = "2.3.0"
READY_S = 120.0
END_S = 30.0
_JARS = (
    f"org.apache.flink:flink-clients:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.2",
    "org.apache.logging.log4j:log4j-core:2.25.2",
)
_OPENED = (
    "java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "java.text", "java.time", "java.util",
    "java.util.concurrent",
)  # fmt: skip  # one item per line is harder to read
_SOURCE = Path(__file__).with_name("Counting.java")
_MAIN = {
    "jobmanager": "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
    "taskmanager": "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
}
_CLIENT = "org.apache.flink.client.cli.CliFrontend"


class Flink:
    """Flink cluster with one JobManager and one TaskManager."""

    def __init__(self, directory: Path, connect: str, more: Mapping[str, object]) -> None:
        self.directory = directory
        self._jars = cached_jars(f"flink-{VERSION}", _JARS, transitive=True)
        ports = Ports.pick()
        (directory / "conf").mkdir(parents=True)
        (directory / "conf" / "config.yaml").write_text(_configuration(directory, connect, ports, more))
        self._environment = {**os.environ, "FLINK_CONF_DIR": str(directory / "conf")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def logs(self) -> dict[str, Path]:
        return {f"flink-{name}": self.directory / f"{name}.log" for name in ("jobmanager", "taskmanager")}

    def start(self, name: str) -> None:
        """Start a JobManager or a TaskManager; it dies with this process."""
        command = self._java(name, _MAIN[name], "--configDir", str(self.directory / "conf"))
        with (self.directory / f"{name}.console").open("ab") as console:
            self._running[name] = subprocess.Popen(
                with_parent_death_signal(command, signal.SIGKILL),
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run_client(self, *arguments: str) -> str:
        """Run Flink's client and return its output."""
        command = self._java("client", _CLIENT, *arguments)
        completed = subprocess.run(
            command, cwd=self.directory, env=self._environment, capture_output=True, text=True, timeout=READY_S, check=False
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return completed.stdout

    def submit(self, *arguments: str) -> str:
        """Submit the job and return its id."""
        answer = self.run_client("run", "-d", "-c", "Counting", str(self._job()), *arguments)
        submitted = re.search("JobID ([0-9a-f]{32})", answer)
        assert submitted is not None, answer
        return submitted[1]

    def until_logged(self, name: str, text: str, times: int = 1) -> None:
        def is_logged() -> bool:
            assert self._running[name].poll() is None, self._console(name)
            log = self.directory / f"{name}.log"
            return log.exists() and log.read_text(errors="replace").count(text) >= times

        wait_until(is_logged, READY_S, f"'{text}' from the {name}")

    def count(self, name: str, text: str) -> int:
        return (self.directory / f"{name}.log").read_text(errors="replace").count(text)

    def kill(self, name: str) -> None:
        self._running[name].kill()
        self._running[name].wait(END_S)

    def until_ended(self, name: str) -> None:
        self._running[name].wait(READY_S)

    def stop(self) -> None:
        """Stop the TaskManager first."""
        for name in sorted(self._running, reverse=True):
            process = self._running[name]
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_S)

    def _java(self, name: str, *arguments: str) -> list[str]:
        logging = self.directory / f"{name}.properties"
        logging.write_text(_log4j2(f"{name}.log"))
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        memory = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [
            str(find_java()),
            *memory,
            *opened,
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            f"{self._jars}/*",
            *arguments,
        ]

    def _console(self, name: str) -> str:
        return (self.directory / f"{name}.console").read_text(errors="replace")[-3000:]

    def _job(self) -> Path:
        """Compile the job and pack it into a jar."""
        classes = self.directory / "classes"
        classes.mkdir()
        compiler = find_java().with_name("javac")
        command = [str(compiler), "-cp", f"{self._jars}/*", "-d", str(classes), str(_SOURCE)]
        subprocess.run(command, check=True, capture_output=True, timeout=READY_S)
        packed = self.directory / "counting.jar"
        with zipfile.ZipFile(packed, "w") as archive:
            for file in sorted(classes.rglob("*.class")):
                archive.write(file, str(file.relative_to(classes)))
        return packed


def _configuration(directory: Path, connect: str, ports: Ports, more: Mapping[str, object]) -> str:
    settings: dict[str, object] = {
        "jobmanager.rpc.address": LOOPBACK,
        "jobmanager.bind-host": LOOPBACK,
        "taskmanager.host": LOOPBACK,
        "taskmanager.bind-host": LOOPBACK,
        "rest.address": LOOPBACK,
        "rest.bind-address": LOOPBACK,
        "rest.port": ports.client,
        "high-availability.type": "zookeeper",
        "high-availability.storageDir": f"file://{directory}/ha",
        "high-availability.zookeeper.quorum": connect,
        "high-availability.jobmanager.port": ports.quorum,
        "execution.checkpointing.interval": "2s",
        "execution.checkpointing.dir": f"file://{directory}/checkpoints",
        "io.tmp.dirs": f"{directory}",
        "taskmanager.numberOfTaskSlots": 1,
        # Without Flink's start scripts, all memory sizes must be set.
        "taskmanager.cpu.cores": 1.0,
        "taskmanager.memory.task.heap.size": "128m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.framework.heap.size": "64m",
        "taskmanager.memory.framework.off-heap.size": "64m",
        "taskmanager.memory.managed.size": "32m",
        "taskmanager.memory.network.min": "32m",
        "taskmanager.memory.network.max": "32m",
        "taskmanager.memory.jvm-metaspace.size": "128m",
        "taskmanager.memory.jvm-overhead.min": "64m",
        "taskmanager.memory.jvm-overhead.max": "64m",
        **more,
    }
    return "".join(f"{key}: {value}\n" for key, value in settings.items())


def _log4j2(file: str) -> str:
    """Return a logging configuration with Flink's default pattern."""
    return format_properties(
        {
            "status": "error",
            "appender.file.type": "File",
            "appender.file.name": "file",
            "appender.file.fileName": file,
            "appender.file.layout.type": "PatternLayout",
            "appender.file.layout.pattern": "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n",
            "rootLogger.level": "info",
            "rootLogger.appenderRef.file.ref": "file",
        }
    )
