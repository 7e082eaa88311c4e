"""One real ZooKeeper server in a directory of its own."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.errors import Conflict, Refused, Unavailable
from holdfast.zk.embedded import configuration, disk_stall, java
from holdfast.zk.embedded.directory_lock import Claim
from holdfast.zk.embedded.exit_reason import explain_exit
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from holdfast.zk.embedded.tethered_process import tethered
from holdfast.zk.session.server_health import ServerHealth, read_health

STOP_S = 5.0
DEATH_S = 10.0
"""How long the kernel may take to end a killed process before something is badly wrong."""
HINT_BYTES_MAX = 256 * 1024


class Server:
    """Starts, ends and torments one server process. Methods are for the thread that made it.

    The server ends with its owner: the kernel kills it, paused or not. `tethered` says why only the main thread may
    start it. While the process lives it holds a lock on its directory, so that no two servers write the same data.
    """

    def __init__(
        self,
        id: int,
        directory: Path,
        members: Mapping[int, Ports],
        settings: configuration.Settings,
        *,
        shim_cache: Path | None = None,
    ) -> None:
        """`members` are the ports of every server of the ensemble, this one's among them; alone, it runs standalone."""
        self.id = id
        self.directory = directory.absolute()
        self.members = members
        self.settings = settings
        self._shim_cache = shim_cache or self.directory
        self._process: subprocess.Popen[bytes] | None = None
        self._claim = Claim(self.directory)
        self._log_start = 0

    @property
    def running(self) -> bool:
        """Whether its process is alive, be it starting, serving or paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.running else None

    @property
    def client_port(self) -> int:
        """Where clients connect: the port with TLS if there is one."""
        return self.members[self.id].client if self.settings.tls is None else self.members[self.id].secure

    @property
    def ports_used(self) -> tuple[int, ...]:
        """Every port that this server listens on."""
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
        """What Java printed in the last run, beside the log. Usually empty."""
        return self.directory / "console.log"

    def claim(self) -> None:
        """Take the directory, or be refused because another server runs on it. Kept until this one is stopped."""
        try:
            taken = self._claim.take()
        except OSError as error:
            raise self._cannot_write(error) from error
        if not taken:
            raise Refused(f"another process runs ZooKeeper server {self.id} on {self.directory}: stop that one first")

    def start(self) -> None:
        """Start the process, unless it runs. Does not wait until it serves. A stalled disk is a healthy one again."""
        if self.running:
            return
        if self.settings.tls is not None:
            self.settings.tls.check()
        command = tethered(self._command(), signal.SIGKILL)
        self.claim()
        try:
            self._write_files()
            self.release_disk()
            environment = dict(os.environ)
            if self.settings.faults:
                library = disk_stall.build(self._shim_cache)
                environment |= disk_stall.preloaded(library, directory=self.directory, stall_file=self._stall_file)
            self._log_start = self.log.stat().st_size if self.log.exists() else 0
            with self.console.open("wb") as console:
                # A session of its own: Ctrl-C on the owner's terminal is for the owner, which then stops its servers.
                self._process = subprocess.Popen(
                    command,
                    cwd=self.directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=self._claim.inherited(),
                )
        except OSError as error:
            self._claim.give_up()
            raise self._cannot_write(error) from error

    def terminate(self) -> None:
        """Ask it to end, paused or not, without waiting."""
        if self._process is not None and self.running:
            self._process.terminate()
            # A paused process does not notice that it was asked until it goes on.
            self._process.send_signal(signal.SIGCONT)

    def stop(self, *, timeout_s: float = STOP_S) -> None:
        """End it, paused or not: ask first, and kill it if it has not ended in time."""
        self.terminate()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """End it as a crash would: SIGKILL, paused or not. Returns when it is gone."""
        if self._process is not None and self.running:
            self._process.kill()
            try:
                self._process.wait(DEATH_S)
            except subprocess.TimeoutExpired:
                raise Unavailable(
                    f"ZooKeeper server {self.id} (pid {self._process.pid}) was killed but hangs in the kernel, "
                    f"probably on its disk"
                ) from None
        self._claim.give_up()

    def pause(self) -> None:
        """Freeze it as a long garbage collection or a sleeping machine would. Returns when all of it stands still."""
        pid = self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stall_disk(self) -> None:
        """From now on every fsync hangs, until `release_disk`. For a server with `faults` only."""
        if not self.settings.faults:
            raise Refused(f"the disk of ZooKeeper server {self.id} cannot be stalled: it was made without faults=True")
        if not self.running:
            raise Conflict(f"ZooKeeper server {self.id} is not running")
        self._stall_file.touch()

    def release_disk(self) -> None:
        self._stall_file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def disk_stalled(self) -> Iterator[None]:
        self.stall_disk()
        try:
            yield
        finally:
            self.release_disk()

    def health(self, *, timeout_s: float = 2.0) -> ServerHealth:
        plain, tls = self.settings.has_plain_port, self.settings.tls
        return read_health(
            str(self.id),
            LOOPBACK,
            self.members[self.id].client if plain else self.client_port,
            timeout_s=timeout_s,
            context=tls.context() if tls is not None and not plain else None,
        )

    def exit_hint(self) -> str:
        """Why it ended, in one sentence. Empty while it runs, and before it was ever started."""
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
            # Measured: with these two a server starts a fifth faster, and a small heap needs no parallel collector.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            # A server that ran out of memory half works. One that ends is seen, and started again.
            "-XX:+ExitOnOutOfMemoryError",
            # The JVM's own statistics are a file mapping, and a slow disk under it would pause the server.
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
        (self.directory / "log4j2.properties").write_text(configuration.log4j2(self.id))

    def _cannot_write(self, error: OSError) -> Refused:
        return Refused(f"ZooKeeper server {self.id} cannot use its directory {self.directory}: {error.strerror}")


def _tail(file: Path, start: int) -> str:
    """The end of a file, but nothing from before `start`. A file that is shorter by now was begun anew."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(start if start <= size else 0, size - HINT_BYTES_MAX))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
