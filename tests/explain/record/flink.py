"""A Flink cluster with high availability on ZooKeeper, its defaults otherwise, while the ZooKeeper servers are restarted."""

import contextlib
import os
import re
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.zk.embedded import Ensemble, tethered
from holdfast.zk.embedded.configuration import as_properties
from holdfast.zk.embedded.java import find_java
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.explain.record.zookeeper import USED_S, Situation, logs_of, restart_one_by_one, three_servers
from tests.kafka.jars import cached
from tests.waiting import eventually

VERSION = "2.3.0"
READY_S = 120.0
END_S = 30.0
SETTLED_S = 15.0
"""So much time lies between one server and the next."""
_JARS = (
    f"org.apache.flink:flink-clients:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.2",
    "org.apache.logging.log4j:log4j-core:2.25.2",
)
_OPENED = (
    "java.lang",
    "java.lang.reflect",
    "java.net",
    "java.io",
    "java.nio",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
)
_SOURCE = Path(__file__).with_name("Counting.java")
_ENTRY = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_WORKER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_CLIENT = "org.apache.flink.client.cli.CliFrontend"


class Flink:
    """One JobManager, one TaskManager."""

    def __init__(self, directory: Path, connect: str) -> None:
        self.directory = directory
        self._jars = cached(f"flink-{VERSION}", _JARS, with_their_own=True)
        ports = Ports.pick()
        (directory / "conf").mkdir(parents=True)
        (directory / "conf" / "config.yaml").write_text(_configuration(directory, connect, ports))
        self._environment = {**os.environ, "FLINK_CONF_DIR": str(directory / "conf")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def logs(self) -> dict[str, Path]:
        return {f"flink-{name}": self.directory / f"{name}.log" for name in ("jobmanager", "taskmanager")}

    def start(self, name: str, *arguments: str) -> None:
        """It ends with whoever started it."""
        with (self.directory / f"{name}.console").open("ab") as console:
            self._running[name] = subprocess.Popen(
                tethered(self._java(name, *arguments), signal.SIGKILL),
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def asked(self, *arguments: str) -> str:
        """What Flink's own client answers."""
        command = self._java("client", _CLIENT, *arguments)
        answered = subprocess.run(
            command, cwd=self.directory, env=self._environment, capture_output=True, text=True, timeout=READY_S, check=False
        )
        assert answered.returncode == 0, answered.stdout + answered.stderr
        return answered.stdout

    def until_logged(self, name: str, text: str, times: int = 1) -> None:
        def there() -> bool:
            assert self._running[name].poll() is None, self._words(name)
            log = self.directory / f"{name}.log"
            return log.exists() and log.read_text(errors="replace").count(text) >= times

        eventually(there, READY_S, f"'{text}' from the {name}")

    def count(self, name: str, text: str) -> int:
        return (self.directory / f"{name}.log").read_text(errors="replace").count(text)

    def stop(self) -> None:
        """In order: who works first."""
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

    def _words(self, name: str) -> str:
        return (self.directory / f"{name}.console").read_text(errors="replace")[-3000:]

    def job(self) -> Path:
        """The job, compiled and packed."""
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


@contextlib.contextmanager
def flink_on(ensemble: Ensemble, directory: Path) -> Iterator[Flink]:
    """With a job that has completed a checkpoint, and is cancelled at the end."""
    flink = Flink(directory / "flink", ensemble.connect)
    try:
        conf = ("--configDir", str(flink.directory / "conf"))
        flink.start("jobmanager", _ENTRY, *conf)
        flink.start("taskmanager", _WORKER, *conf)
        flink.until_logged("jobmanager", "was granted leadership")
        flink.until_logged("taskmanager", "Successful registration at resource manager")
        submitted = re.search("JobID ([0-9a-f]{32})", flink.asked("run", "-d", "-c", "Counting", str(flink.job())))
        assert submitted is not None
        flink.until_logged("jobmanager", "Completed checkpoint")
        yield flink
        flink.asked("cancel", submitted[1])
        flink.until_logged("jobmanager", "from state CANCELLING to CANCELED")
    finally:
        flink.stop()


def healthy(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, flink_on(ensemble, directory) as flink:
        time.sleep(USED_S)  # it counts for so long
        return {**logs_of(ensemble), **flink.logs}


def rolling_restart(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, flink_on(ensemble, directory) as flink:

        def counting_again() -> None:
            time.sleep(SETTLED_S)
            done = flink.count("jobmanager", "Completed checkpoint")
            flink.until_logged("jobmanager", "Completed checkpoint", times=done + 2)

        restart_one_by_one(ensemble, counting_again)
        return {**logs_of(ensemble), **flink.logs}


def _configuration(directory: Path, connect: str, ports: Ports) -> str:
    told = {
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
        # A worker that was not started by Flink's scripts has to be told how large everything is.
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
    }
    return "".join(f"{key}: {value}\n" for key, value in told.items())


def _log4j2(file: str) -> str:
    """In the shape of Flink's own default."""
    return as_properties(
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


SITUATIONS: dict[str, Situation] = {"flink-healthy": healthy, "flink-rolling-restart": rolling_restart}
