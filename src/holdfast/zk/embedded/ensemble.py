"""One, three or five ZooKeeper servers under one directory, on the same ports each time."""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import Refused, Unavailable
from holdfast.zk.embedded.configuration import Settings
from holdfast.zk.embedded.ports import LOOPBACK, Ports, taken
from holdfast.zk.embedded.server import Server
from holdfast.zk.session.server_health import ServerHealth

SIZES = (1, 3, 5)
POLL_S = 0.05
HEALTH_S = 1.0


class Ensemble:
    """Its servers and their ports are remembered in `ensemble.json`, so that clients find it again after a restart."""

    def __init__(self, directory: Path, *, size: int | None = None, settings: Settings | None = None) -> None:
        """Open the ensemble in this directory, or make one of `size` servers (by default 1) if there is none."""
        self.directory = directory.absolute()
        self._file = self.directory / "ensemble.json"
        members = self._remembered()
        # Without its file (someone removed it to have new ports picked) the data still says how many servers there are.
        known = len(members) or len(list(self.directory.glob("server-*")))
        wanted = size or known or 1
        if wanted not in SIZES:
            raise Refused(f"a ZooKeeper ensemble has 1, 3 or 5 servers, not {wanted}")
        if known and wanted != known:
            raise Refused(
                f"the ZooKeeper ensemble in {self.directory} has {known} servers, and its data cannot be opened with "
                f"{wanted}: use --zookeepers {known}, or another directory"
            )
        self._members = members or self._first_members(wanted)
        self.servers = tuple(
            Server(
                id,
                self.directory / f"server-{id}",
                self._members,
                settings or Settings(),
                shim_cache=self.directory / "shim",
            )
            for id in sorted(self._members)
        )

    @property
    def connect(self) -> str:
        """What a client needs to find it: the ports with TLS if there are any."""
        return ",".join(f"{LOOPBACK}:{server.client_port}" for server in self.servers)

    def start(self) -> tuple[str, ...]:
        """Start every server that does not run, without waiting for them.

        Returns sentences for people: which server had to move to new ports, because another program took its own.
        """
        if any(server.running for server in self.servers):
            for server in self.servers:
                server.start()
            return ()
        try:
            # First the locks, then the look at the ports: what listens there might be these very servers, of another
            # owner.
            for server in self.servers:
                server.claim()
            notes = self._move_away()
            for server in self.servers:
                server.start()
        except BaseException:
            # All or none: half an ensemble looks like a sick one.
            self.stop()
            raise
        return notes

    def wait_ready(self, deadline_s: float) -> None:
        """Return when every server serves and one of them leads. Fails at once if a server has ended."""
        deadline = time.monotonic() + deadline_s
        while True:
            healths = [self._living_health(server, deadline) for server in self.servers]
            if _agree(healths):
                return
            if time.monotonic() > deadline:
                where, blame = self.directory, self._blame(healths)
                raise Unavailable(f"the ZooKeeper ensemble in {where} is not ready after {deadline_s:g} s: {blame}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop every server. All of them are stopped, even if one of them resists."""
        with contextlib.ExitStack() as stack:
            for server in self.servers:
                # Asked all at once, because each takes a third of a second to end.
                server.terminate()
                stack.callback(server.stop)

    def _living_health(self, server: Server, deadline: float) -> ServerHealth:
        if not server.running:
            hint = server.exit_hint() or "it was not started"
            raise Refused(f"ZooKeeper server {server.id} is not running: {hint} (log: {server.log})")
        # A short wait even past the deadline: what a server answers then is the reason in the error.
        return server.health(timeout_s=min(HEALTH_S, max(0.1, deadline - time.monotonic())))

    def _blame(self, healths: list[ServerHealth]) -> str:
        for server, health in zip(self.servers, healths, strict=True):
            if not health.serving:
                return f"server {server.id}: {'; '.join(health.problems)} (log: {server.log})"
        return f"its servers do not agree on one leader ({', '.join(health.mode for health in healths)})"

    def _move_away(self) -> tuple[str, ...]:
        members = dict(self._members)
        notes: list[str] = []
        for server in self.servers:
            lost = [port for port in server.ports_used if taken(port)]
            if not lost:
                continue
            others = [number for ports in members.values() for number in ports.numbers()]
            members[server.id] = Ports.pick(avoid=others)
            notes.append(
                f"ZooKeeper server {server.id} moved to new ports, because another program uses "
                f"{' and '.join(f'{LOOPBACK}:{port}' for port in lost)}"
            )
        if notes:
            self._remember(members)
            self._members = members
            for server in self.servers:
                server.members = members
        return tuple(notes)

    def _first_members(self, size: int) -> dict[int, Ports]:
        members: dict[int, Ports] = {}
        for id in range(1, size + 1):
            members[id] = Ports.pick(avoid=[number for ports in members.values() for number in ports.numbers()])
        self._remember(members)
        return members

    def _remember(self, members: Mapping[int, Ports]) -> None:
        entries = [{"id": id} | dataclasses.asdict(ports) for id, ports in members.items()]
        text = json.dumps({"servers": entries}, indent=2)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self._file.with_suffix(".new")
            with fresh.open("w") as stream:
                stream.write(text + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(self._file)
        except OSError as error:
            raise Refused(f"the ZooKeeper ensemble cannot use {self.directory}: {error.strerror}") from error

    def _remembered(self) -> dict[int, Ports]:
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Refused(f"the ZooKeeper ensemble cannot use {self.directory}: {error.strerror}") from error
        return parse_members(text, str(self._file))


def parse_members(text: str, file: str) -> dict[int, Ports]:
    """The servers that an `ensemble.json` names."""
    try:
        entries = json.loads(text)["servers"]
        members = {_whole(entry["id"]): _ports(entry) for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{file} cannot be read ({error!r}): repair it, or remove it to have new ports picked") from error
    if sorted(members) != list(range(1, len(members) + 1)) or len(members) not in SIZES:
        raise Refused(f"{file} names the servers {sorted(members)}, which is not an ensemble of 1, 3 or 5")
    return members


def _ports(entry: Mapping[str, object]) -> Ports:
    return Ports(**{field.name: _whole(entry[field.name]) for field in dataclasses.fields(Ports)})


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _agree(healths: list[ServerHealth]) -> bool:
    modes = [health.mode for health in healths]
    if len(modes) == 1:
        return modes == ["standalone"]
    return modes.count("leader") == 1 and modes.count("follower") == len(modes) - 1
