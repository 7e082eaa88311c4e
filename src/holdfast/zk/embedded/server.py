"""One ZooKeeper server process, in its own directory."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.errors import Conflict, Refused, Unavailable
from holdfast.zk.embedded import configuration, disk_stall, java
from holdfast.zk.embedded.directory_lock import DirectoryLock
from holdfast.zk.embedded.exit_reason import explain_exit
from holdfast.zk.embedded.parent_death_signal import with_parent_death_signal
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from holdfast.zk.session.server_health import ServerHealth, read_health

STOP_TIMEOUT_S = 5.0
KILL_TIMEOUT_S = 10.0
"""Time limit for the kernel to end a killed process."""
LOG_TAIL_BYTES_MAX = 256 * 1024


class ZooKeeperServer:
    """One server process, which can be started and stopped, and into which faults can be injected. Not thread-safe.

    The kernel kills the server when its owner ends, even if it is paused. Therefore only the main thread may start it (see
    `with_parent_death_signal`). The process holds a lock on its directory, so that no two servers write the same data.
    """

    def __init__(
        self,
        id: int,
        directory: Path,
        members: Mapping[int, Ports],
        settings: configuration.ServerSettings,
        *,
        stall_library_cache: Path | None = None,
    ) -> None:
        """Describe the server without starting it. `members` are the ports of all servers; a single one runs standalone."""
        self.id = id
        self.directory = directory.absolute()
        self.members = members
        self.settings = settings
        self._stall_library_cache = stall_library_cache or self.directory
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = DirectoryLock(self.directory)
        self._log_start = 0

    @property
    def running(self) -> bool:
        """True while the process exists: starting, serving or paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.running else None

    @property
    def client_port(self) -> int:
        """Port for clients. With TLS it is the secure port."""
        return self.members[self.id].client if self.settings.tls is None else self.members[self.id].secure

    @property
    def listening_ports(self) -> tuple[int, ...]:
        ports = self.members[self.id]
        return (
            *((ports.client,) if self.settings.has_plain_port else ()),
            *((ports.secure,) if self.settings.tls is not None else ()),
            *((ports.quorum, ports.election) if len(self.members) > 1 else ()),
        )

    @property
    def log(self) -> Path:
        return self.directory / configuration.LOG_NAME

    @property
    def console(self) -> Path:
        """Output of Java in the last run, apart from the log. Usually empty."""
        return self.directory / "console.log"

    def lock_directory(self) -> None:
        """Lock the directory until the server is stopped. Raises Refused if another server uses it."""
        try:
            acquired = self._lock.acquire()
        except OSError as error:
            raise self._directory_error(error) from error
        if not acquired:
            raise Refused(f"another process is running ZooKeeper server {self.id} in {self.directory}: stop it first")

    def start(self) -> None:
        """Start the process if it is not running, and end any disk stall. Does not wait until the server serves."""
        if self.running:
            return
        if self.settings.tls is not None:
            self.settings.tls.check()
        command = with_parent_death_signal(self._command(), signal.SIGKILL)
        self.lock_directory()
        try:
            self._write_files()
            self.resume_disk()
            environment = dict(os.environ)
            if self.settings.faults:
                library = disk_stall.build_library(self._stall_library_cache)
                environment |= disk_stall.preload_environment(library, directory=self.directory, stall_file=self._stall_file)
            self._log_start = self.log.stat().st_size if self.log.exists() else 0
            with self.console.open("wb") as console:
                # A new session: Ctrl-C on the terminal must reach only the owner, which then stops its servers.
                self._process = subprocess.Popen(
                    command,
                    cwd=self.directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    umask=0o077,  # the data contains secrets
                    pass_fds=self._lock.inheritable_fds(),
                )
        except OSError as error:
            self._lock.release()
            raise self._directory_error(error) from error

    def terminate(self) -> None:
        """Send SIGTERM and resume the server if it is paused. Does not wait."""
        if self._process is not None and self.running:
            self._process.terminate()
            # A paused process handles SIGTERM only after SIGCONT.
            self._process.send_signal(signal.SIGCONT)

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Terminate the server, and kill it if it has not ended after `timeout_s`."""
        self.terminate()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """Kill the server with SIGKILL and wait for its end. Raises Unavailable if it does not end."""
        if self._process is not None and self.running:
            self._process.kill()
            try:
                self._process.wait(KILL_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                raise Unavailable(
                    f"ZooKeeper server {self.id} (pid {self._process.pid}) has not ended {KILL_TIMEOUT_S:g} s after SIGKILL: "
                    f"it hangs in the kernel, probably on a disk operation"
                ) from None
        self._lock.release()

    def pause(self) -> None:
        """Stop the process with SIGSTOP, as a long garbage collection would, and wait until all of it is stopped."""
        pid = self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stall_disk(self) -> None:
        """Block every fsync until `resume_disk`. Needs `faults=True` in the settings."""
        if not self.settings.faults:
            raise Refused(f"cannot stall the disk of ZooKeeper server {self.id}: its settings do not have faults=True")
        if not self.running:
            raise Conflict(f"ZooKeeper server {self.id} is not running")
        self._stall_file.touch()

    def resume_disk(self) -> None:
        self._stall_file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def stall_disk_within(self) -> Iterator[None]:
        self.stall_disk()
        try:
            yield
        finally:
            self.resume_disk()

    def health(self, *, timeout_s: float = 2.0) -> ServerHealth:
        plain, tls = self.settings.has_plain_port, self.settings.tls
        return read_health(
            str(self.id),
            LOOPBACK,
            self.members[self.id].client if plain else self.client_port,
            timeout_s=timeout_s,
            context=tls.context() if tls is not None and not plain else None,
        )

    def exit_reason(self) -> str:
        """Return why the server ended, or an empty string while it runs or if it was never started."""
        if self._process is None or self.running:
            return ""
        return explain_exit(
            log=_tail(self.log, self._log_start),
            console=_tail(self.console, 0),
            exit_code=self._process.returncode,
            directory=str(self.directory),
        )

    @property
    def _stall_file(self) -> Path:
        return self.directory / "disk-stalled"

    def _signal(self, number: signal.Signals) -> int:
        if self._process is None or not self.running:
            raise Conflict(f"ZooKeeper server {self.id} is not running")
        self._process.send_signal(number)
        return self._process.pid

    def _command(self) -> list[str]:
        return [
            str(java.find_java()),
            f"-Xmx{self.settings.heap_mb}m",
            # Measured: these two options make a server start a fifth faster. A small heap needs no parallel collector.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            # A server out of memory works only partly. After an exit, it is noticed and restarted.
            "-XX:+ExitOnOutOfMemoryError",
            # The JVM maps its statistics to a file, so a slow disk could pause the server.
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            "-Dlog4j2.configurationFile=log4j2.properties",
            "-cp",
            java.class_path(java.find_jars()),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            "./zoo.cfg",
        ]

    def _write_files(self) -> None:
        data = self.directory / configuration.DATA_NAME
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{self.id}\n")
        (self.directory / "zoo.cfg").write_text(configuration.zoo_cfg(self.id, self.members, self.settings))
        (self.directory / "log4j2.properties").write_text(configuration.log4j2_properties(self.id))

    def _directory_error(self, error: OSError) -> Refused:
        return Refused(f"ZooKeeper server {self.id} cannot use its directory {self.directory}: {error.strerror}")


def _tail(file: Path, start: int) -> str:
    """Return the end of a file, but nothing before `start`. A file that is shorter than `start` was rotated."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(start if start <= size else 0, size - LOG_TAIL_BYTES_MAX))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
