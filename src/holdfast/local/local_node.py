"""Node of a local cluster: its configuration, its guard process, and the state files of guard and agent."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.local.directory_layout import CLUSTER_NAME
from holdfast.node.guard.guard_process import GUARD_FILE, STOP_TIMEOUT_S
from holdfast.node.node_directory import AGENT_FILE
from holdfast.zk.embedded import with_parent_death_signal
from holdfast.zk.embedded.ports import LOOPBACK, Ports, is_port_taken

LOG_BYTES_MAX = 10 * 1024 * 1024
SESSION_TIMEOUT_S = 10
MARGIN_S = 4


class LocalNode:
    def __init__(
        self,
        id: str,
        directory: Path,
        *,
        storage: Path,
        archives: Path,
        connectors: Path,
        auth_file: Path,
        slots: int,
        tick_ms: int,
        sync_limit: int,
        accept_zookeeper: bool,
    ) -> None:
        self.id = id
        self.directory = directory
        self._storage = storage
        self._archives = archives
        self._connectors = connectors
        self._auth_file = auth_file
        self._slots = slots
        self._tick_ms = tick_ms
        self._sync_limit = sync_limit
        self._accept_zookeeper = accept_zookeeper
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    def start(self, connect: str) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            config = self.directory / "node.toml"
            write_atomically(config, self._config_toml(connect, config).encode())
            log = self._log
            if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
                log.replace(log.with_suffix(".log.1"))
            for stale in (GUARD_FILE, AGENT_FILE):
                (self.directory / stale).unlink(missing_ok=True)
            self._log_start = log.stat().st_size if log.exists() else 0
            self._spawn(config, log)
        except OSError as error:
            raise Refused(f"node {self.id} cannot use {self.directory}: {error.strerror}") from error

    @property
    def _log(self) -> Path:
        return self.directory / "node.log"

    def rotate_log(self, bytes_max: int = LOG_BYTES_MAX) -> None:
        """Copy a large log to `node.log.1` and truncate it. Lines written in between are lost; errors are ignored.

        The guard and the agent keep the file open in append mode, so they continue at its new end.
        """
        with contextlib.suppress(OSError):
            if self._log.stat().st_size > bytes_max:
                shutil.copyfile(self._log, self._log.with_suffix(".log.1"))
                os.truncate(self._log, 0)
                self._log_start = 0

    def _spawn(self, config: Path, log: Path) -> None:
        agent = [sys.executable, "-P", "-m", "holdfast.cli.agent_main", str(config)]
        if self._accept_zookeeper:
            agent.append("--accept-zookeeper")
            self._accept_zookeeper = False
        command = [sys.executable, "-P", "-m", "holdfast.node.guard", str(self.directory), *agent]
        log.touch(mode=0o600)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                with_parent_death_signal(command, signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _config_toml(self, connect: str, previous_config: Path) -> str:
        return "\n".join(
            [
                "[cluster]",
                f'name = "{CLUSTER_NAME}"',
                f'connect = "{connect}"',
                f"storage = {json.dumps(str(self._storage), ensure_ascii=False)}",
                "[node]",
                f'id = "{self.id}"',
                f"dir = {json.dumps(str(self.directory), ensure_ascii=False)}",
                f"slots = {self._slots}",
                f"archives = {json.dumps(str(self._archives.absolute()), ensure_ascii=False)}",
                f"connectors = {json.dumps(str(self._connectors.absolute()), ensure_ascii=False)}",
                f'api = "{LOOPBACK}:{self._api_port(previous_config)}"',
                "[zookeeper]",
                f"auth_file = {json.dumps(str(self._auth_file.absolute()), ensure_ascii=False)}",
                f"session_timeout_s = {SESSION_TIMEOUT_S}",
                f"tick_s = {self._tick_ms / 1000}",
                f"sync_limit = {self._sync_limit}",
                "[timing]",
                f"margin_s = {MARGIN_S}",
                "",
            ]
        )

    @staticmethod
    def _api_port(previous_config: Path) -> int:
        """Return the port of the previous configuration if it is still free, else a new one."""
        try:
            port = int(str(tomllib.loads(previous_config.read_text())["node"]["api"]).rpartition(":")[2])
        except (OSError, ValueError, KeyError, TypeError):
            return Ports.pick().client
        return port if 0 < port < 65536 and not is_port_taken(port) else Ports.pick().client

    def stop(self) -> None:
        """Stop the guard, giving it time to stop its agent. An agent whose guard is killed exits by itself."""
        if self._process is None:
            return
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S + 3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def terminate(self) -> None:
        if self._process is not None and self.running:
            self._process.terminate()

    def describe(self) -> dict[str, Any]:
        guard, agent = _read(self.directory / GUARD_FILE), _read(self.directory / AGENT_FILE)
        agent_pid = guard.get("agent_pid")
        return {
            "id": self.id,
            "pid": self._process.pid if self._process is not None and self.running else None,
            "agent_pid": agent_pid,
            "api": agent.get("api") if agent.get("pid") == agent_pid else None,
        }

    def last_problem(self) -> str:
        """Return the last problem in the node's log since its start, unless the log says that it is over."""
        try:
            with self._log.open(errors="replace") as log:
                log.seek(self._log_start)
                lines = log.read().splitlines()
        except OSError:
            return ""
        for line in reversed(lines[-50:]):
            try:
                event = json.loads(line)
                if event["event"] == "problem over":
                    break
                if event["problem"]:
                    return str(event["problem"])
            except (ValueError, KeyError, TypeError):
                continue
        return f"its log names no problem; see {self._log}"


def _read(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}
