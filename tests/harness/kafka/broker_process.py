"""Kafka broker: a Java process with its own directory that can be stopped, killed, paused and resumed."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from holdfast.zk.embedded import with_parent_death_signal
from holdfast.zk.embedded.java import find_java
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.kafka.broker_files import LOG_NAME

HEAP_MB = 256
STOP_TIMEOUT_S = 20.0
FAST_START_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
LOGGING_FILE = "logging.properties"
CLASS_ARCHIVE = "classes.jsa"
"""Java class-data archive beside the jars. With it three brokers start in 4 s instead of 8 s."""


def java_command(jars: Path, *arguments: str) -> list[str]:
    """Return the command line that runs a Kafka class with a small heap."""
    logging = (f"-Dlog4j.configuration=file:{LOGGING_FILE}", f"-Dlog4j2.configurationFile={LOGGING_FILE}")
    archive = jars / CLASS_ARCHIVE
    shared = (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
    return [str(find_java()), f"-Xmx{HEAP_MB}m", *FAST_START_OPTIONS, *shared, *logging, "-cp", f"{jars}/*", *arguments]


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
        """True while the process exists, even if it is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None and self.running, f"broker {self.id} is not running"
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.directory / LOG_NAME

    def start(self, *options: str) -> None:
        """Start the process without waiting until it serves requests."""
        assert not self.running, f"broker {self.id} is already running"
        command = java_command(self._jars, *options, "kafka.Kafka", "server.properties")
        with (self.directory / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                with_parent_death_signal(command, signal.SIGKILL),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Shut down gracefully, so that leadership moves to other brokers. Kill the process if it does not end."""
        if self._process is not None and self.running:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """Kill the process, even if it is paused, and wait for its end."""
        if self._process is not None and self.running:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def pause(self) -> None:
        """Stop all threads with SIGSTOP and wait until they have stopped."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log_tail(self) -> str:
        """Return the end of the broker's output, for the message of a failed test."""
        files = (self.log, self.directory / "console.log")
        return "\n".join(file.read_text(errors="replace")[-1500:] for file in files if file.exists())
