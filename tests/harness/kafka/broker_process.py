"""One Kafka broker: a Java process in a directory of its own, which can be stopped, killed, paused and continued."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from holdfast.zk.embedded import tethered
from holdfast.zk.embedded.java import find_java
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.kafka.broker_files import LOG_NAME

HEAP_MB = 256
END_S = 20.0
FAST = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
LOGGING = "logging.properties"
ARCHIVE = "classes.jsa"
"""Beside the jars: their classes as Java has loaded them once. With it three brokers are up in 4 s instead of 8."""


def java(jars: Path, *arguments: str) -> list[str]:
    """The command line that runs a class of Kafka with a small heap."""
    logging = (f"-Dlog4j.configuration=file:{LOGGING}", f"-Dlog4j2.configurationFile={LOGGING}")
    archive = jars / ARCHIVE
    shared = (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
    return [str(find_java()), f"-Xmx{HEAP_MB}m", *FAST, *shared, *logging, "-cp", f"{jars}/*", *arguments]


class Broker:
    def __init__(self, id: int, directory: Path, jars: Path, ports: Ports) -> None:
        self.id = id
        self.directory = directory
        self.address = f"{LOOPBACK}:{ports.client}"
        self.secure_address = f"{LOOPBACK}:{ports.secure}"
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether its process is alive, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None and self.running, f"broker {self.id} does not run"
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.directory / LOG_NAME

    def start(self, *options: str) -> None:
        """Does not wait until it serves."""
        assert not self.running, f"broker {self.id} runs already"
        command = java(self._jars, *options, "kafka.Kafka", "server.properties")
        with (self.directory / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                tethered(command, signal.SIGKILL),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        """In order, so that it hands over what it leads; killed if it does not end."""
        if self._process is not None and self.running:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        self.kill()

    def kill(self) -> None:
        """As a crash would, paused or not. Returns when it is gone."""
        if self._process is not None and self.running:
            self._process.kill()
            self._process.wait(END_S)

    def pause(self) -> None:
        """Returns when all of it stands still."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def last_words(self) -> str:
        """The end of what it wrote, for the message of a test that waits in vain."""
        files = (self.log, self.directory / "console.log")
        return "\n".join(file.read_text(errors="replace")[-1500:] for file in files if file.exists())
