"""Ensemble of one, three or five ZooKeeper servers in one directory, with stable ports."""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import Refused, Unavailable
from holdfast.zk.embedded.configuration import ServerSettings
from holdfast.zk.embedded.ports import LOOPBACK, Ports, is_port_taken
from holdfast.zk.embedded.server import ZooKeeperServer
from holdfast.zk.session.server_health import ServerHealth

SIZES = (1, 3, 5)
POLL_S = 0.05
HEALTH_S = 1.0


class EmbeddedEnsemble:
    """An ensemble of local servers. `ensemble.json` stores their ports, so that clients reconnect after a restart."""

    def __init__(self, directory: Path, *, size: int | None = None, settings: ServerSettings | None = None) -> None:
        """Open the ensemble in this directory, or create one with `size` servers (default 1)."""
        self.directory = directory.absolute()
        self._file = self.directory / "ensemble.json"
        members = self._load_members()
        # If ensemble.json was removed to get new ports, the data directories still show the number of servers.
        existing = len(members) or len(list(self.directory.glob("server-*")))
        size = size or existing or 1
        if size not in SIZES:
            raise Refused(f"a ZooKeeper ensemble has 1, 3 or 5 servers, not {size}")
        if existing and size != existing:
            raise Refused(
                f"the ZooKeeper ensemble in {self.directory} has {existing} servers and cannot be opened with {size}: "
                f"use --zookeepers {existing} or another directory"
            )
        self._members = members or self._create_members(size)
        self.servers = tuple(
            ZooKeeperServer(
                id,
                self.directory / f"server-{id}",
                self._members,
                settings or ServerSettings(),
                stall_library_cache=self.directory / "shim",
            )
            for id in sorted(self._members)
        )

    @property
    def connect_string(self) -> str:
        """Connect string for clients. With TLS it has the secure ports."""
        return ",".join(f"{LOOPBACK}:{server.client_port}" for server in self.servers)

    def start(self) -> tuple[str, ...]:
        """Start every server that is not running, without waiting for it to serve.

        Returns one sentence for each server that got new ports because another program uses its old ones.
        """
        if any(server.running for server in self.servers):
            for server in self.servers:
                server.start()
            return ()
        try:
            # Take the locks before checking the ports: the ports may be in use by these servers, run by another process.
            for server in self.servers:
                server.lock_directory()
            notes = self._replace_taken_ports()
            for server in self.servers:
                server.start()
        except BaseException:
            # All or none: a partly started ensemble would look unhealthy.
            self.stop()
            raise
        return notes

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until every server serves and exactly one leads. Raises Refused as soon as a server has ended.

        Raises Unavailable after `deadline_s` seconds.
        """
        deadline = time.monotonic() + deadline_s
        while True:
            healths = [self._read_health(server, deadline) for server in self.servers]
            if _is_ready(healths):
                return
            if time.monotonic() > deadline:
                problem = self._describe_problem(healths)
                raise Unavailable(f"the ZooKeeper ensemble in {self.directory} is not ready after {deadline_s:g} s: {problem}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop every server, even if stopping one of them fails."""
        with contextlib.ExitStack() as stack:
            for server in self.servers:
                # Send all signals first: each server takes a third of a second to end.
                server.terminate()
                stack.callback(server.stop)

    def _read_health(self, server: ZooKeeperServer, deadline: float) -> ServerHealth:
        if not server.running:
            reason = server.exit_reason() or "it was not started"
            raise Refused(f"ZooKeeper server {server.id} is not running: {reason} (log: {server.log})")
        # Query the server even after the deadline: its answer is the reason in the error message.
        return server.health(timeout_s=min(HEALTH_S, max(0.1, deadline - time.monotonic())))

    def _describe_problem(self, healths: list[ServerHealth]) -> str:
        for server, health in zip(self.servers, healths, strict=True):
            if not health.serving:
                return f"server {server.id}: {'; '.join(health.problems)} (log: {server.log})"
        return f"the servers have not elected one leader ({', '.join(health.mode for health in healths)})"

    def _replace_taken_ports(self) -> tuple[str, ...]:
        members = dict(self._members)
        notes: list[str] = []
        for server in self.servers:
            taken = [port for port in server.listening_ports if is_port_taken(port)]
            if not taken:
                continue
            others = [number for ports in members.values() for number in ports.numbers()]
            members[server.id] = Ports.pick(avoid=others)
            notes.append(
                f"ZooKeeper server {server.id} has new ports, because another program uses "
                f"{' and '.join(f'{LOOPBACK}:{port}' for port in taken)}"
            )
        if notes:
            self._store_members(members)
            self._members = members
            for server in self.servers:
                server.members = members
        return tuple(notes)

    def _create_members(self, size: int) -> dict[int, Ports]:
        members: dict[int, Ports] = {}
        for id in range(1, size + 1):
            members[id] = Ports.pick(avoid=[number for ports in members.values() for number in ports.numbers()])
        self._store_members(members)
        return members

    def _store_members(self, members: Mapping[int, Ports]) -> None:
        entries = [{"id": id} | dataclasses.asdict(ports) for id, ports in members.items()]
        text = json.dumps({"servers": entries}, indent=2)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = self._file.with_suffix(".new")
            with temporary.open("w") as stream:
                stream.write(text + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(self._file)
        except OSError as error:
            raise Refused(f"cannot use the directory of the ZooKeeper ensemble, {self.directory}: {error.strerror}") from error

    def _load_members(self) -> dict[int, Ports]:
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Refused(f"cannot use the directory of the ZooKeeper ensemble, {self.directory}: {error.strerror}") from error
        return parse_members(text, str(self._file))


def parse_members(text: str, file: str) -> dict[int, Ports]:
    """Parse the text of an `ensemble.json` into the ports of each server."""
    try:
        entries = json.loads(text)["servers"]
        members = {_parse_int(entry["id"]): _parse_ports(entry) for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{file} is malformed ({error!r}): repair it, or remove it to get new ports") from error
    if sorted(members) != list(range(1, len(members) + 1)) or len(members) not in SIZES:
        raise Refused(f"{file} lists servers {sorted(members)}; an ensemble has 1, 3 or 5 servers, numbered from 1")
    return members


def _parse_ports(entry: Mapping[str, object]) -> Ports:
    return Ports(**{field.name: _parse_int(entry[field.name]) for field in dataclasses.fields(Ports)})


def _parse_int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _is_ready(healths: list[ServerHealth]) -> bool:
    modes = [health.mode for health in healths]
    if len(modes) == 1:
        return modes == ["standalone"]
    return modes.count("leader") == 1 and modes.count("follower") == len(modes) - 1
