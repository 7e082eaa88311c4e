"""Configuration of a node, parsed from TOML into one frozen object.

`SETTINGS` lists every key with its description. `docs/operations.md` contains the same table; a test compares them.
"""

import math
import os
import re
import socket
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import Refused
from holdfast.model.identifiers import NodeId, is_valid_name
from holdfast.plan.retention import RetentionPolicy
from holdfast.zk.session.connection_settings import (
    ConnectionSettings,
    DigestCredentials,
    Tls,
    parse_connect_string,
    read_auth_file,
)
from holdfast.zk.session.timing import Timing

KEEP_CHECKPOINTS_S_MIN = 3600.0
"""A savepoint or a restored job may still be copying the checkpoint when the job's record is deleted."""


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    kind: type
    default: Any
    description: str
    allows_seconds: bool = False
    """True if a number of seconds is a valid value besides the words of this setting."""


SETTINGS = (
    Setting(
        "cluster.name", str, "default", "Cluster name. Nodes and clients with the same name and ZooKeeper form one cluster."
    ),
    Setting("cluster.connect", str, None, "ZooKeeper servers, `HOST:PORT,HOST:PORT…[/PATH]`."),
    Setting("cluster.storage", str, "", "Directory or URI for code and checkpoints. Every node must be able to reach it."),
    Setting("cluster.keep_ended_s", float, 604800.0, "Seconds until the record of an ended job is deleted."),
    Setting("cluster.keep_ended_max", int, 1000, "Maximum number of records of ended jobs. The oldest are deleted first."),
    Setting(
        "cluster.keep_checkpoints",
        str,
        "forever",
        "Seconds from the deletion of a job's record until its checkpoint is deleted, at least 3600. Set it on every node.",
        allows_seconds=True,
    ),
    Setting("node.id", str, "", "Node name, unique in the cluster."),
    Setting("node.dir", str, None, "Directory of this node, on a local disk."),
    Setting("node.slots", int, 4, "Number of slots that this node offers to jobs."),
    Setting(
        "node.archives",
        str,
        "archives",
        "Directory, relative to `node.dir`, for class-data archives, which make drivers start faster. `off` disables them.",
    ),
    Setting(
        "node.connectors",
        str,
        "connectors",
        "Directory, relative to `node.dir`, for Spark's Kafka connector, which is downloaded once.",
    ),
    Setting(
        "node.maven", str, "", "Maven repository for the Kafka connector. Without it, Spark's default is used: Maven Central."
    ),
    Setting(
        "node.api",
        str,
        "127.0.0.1:0",
        "Address of the node's HTTP API, `HOST:PORT`. Port 0 selects a free port once; the node keeps it.",
    ),
    Setting(
        "zookeeper.session_timeout_s",
        float,
        15.0,
        "Requested session timeout in seconds. The server grants 2 to 20 of its ticks.",
    ),
    Setting("zookeeper.tick_s", float, 2.0, "`tickTime` of the ZooKeeper servers, in seconds."),
    Setting("zookeeper.sync_limit", int, 5, "`syncLimit` of the ZooKeeper servers."),
    Setting("zookeeper.user", str, "", "User for digest authentication. Only this user can access the znodes that it creates."),
    Setting("zookeeper.password", str, "", "Password of the user. Prefer `zookeeper.password_file`."),
    Setting("zookeeper.password_file", str, "", "File that contains the password. Overrides `zookeeper.password`."),
    Setting(
        "zookeeper.auth_file",
        str,
        "",
        "File with one line `USER:PASSWORD`, in place of `zookeeper.user` and `zookeeper.password`. `holdfast up` writes one.",
    ),
    Setting("zookeeper.tls_ca", str, "", "PEM file of the trusted certificate authorities. Setting it enables TLS."),
    Setting("zookeeper.tls_certificate", str, "", "PEM file of the client certificate."),
    Setting("zookeeper.tls_key", str, "", "PEM file of the client's private key."),
    Setting("zookeeper.tls_key_password", str, "", "Password of the private key."),
    Setting(
        "zookeeper.tls_check_hostname",
        bool,
        True,
        "Require that the server's certificate names the host that the client connects to.",
    ),
    Setting("timing.heartbeat_s", float, 1.0, "Seconds between two heartbeats of a leader, of a runner and of a node."),
    Setting("timing.kill_s", float, 1.0, "Seconds that killing a process tree may take."),
    Setting(
        "timing.stop_s",
        float,
        60.0,
        "Grace period in seconds: the time a stopping job gets to complete its batch before it gets SIGTERM.",
    ),
    Setting(
        "timing.margin_s",
        float,
        5.0,
        "Safety margin in seconds: a leadership or lease is given up this long before the session could expire.",
    ),
)

_SETTINGS_BY_NAME = {key.name: key for key in SETTINGS}


@dataclass(frozen=True, slots=True)
class Config:
    cluster: str
    node: NodeId
    directory: Path
    slots: int
    api_host: str
    api_port: int
    connection: ConnectionSettings
    timing: Timing
    storage: str
    stop_s: float
    retention: RetentionPolicy
    archives: Path | None
    """Directory of class-data archives, or None if they are disabled."""
    connectors: Path
    maven: str


def load_config(path: Path) -> Config:
    """Load the configuration of a node. Raise Refused if a setting is missing, unknown or invalid."""
    values = _read_values(path)
    _require(values, path, "cluster.connect", "node.dir")
    return _build_config(values, path)


def load_connection(path: Path) -> tuple[str, ConnectionSettings]:
    """Load the part that a client needs: the cluster's name and how to connect to its ZooKeeper."""
    values = _read_values(path)
    _require(values, path, "cluster.connect")
    _check_name("cluster.name", values["cluster.name"], path)
    return values["cluster.name"], _connection_settings(values, path)


def _require(values: dict[str, Any], path: Path, *names: str) -> None:
    for name in names:
        if values[name] is None:
            raise Refused(f"{path}: '{name}' is missing ({_SETTINGS_BY_NAME[name].description.rstrip('.')})")


def _read_values(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise Refused(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"{path} is not valid TOML: {error}") from error
    values = {key.name: key.default for key in SETTINGS}
    for table, entries in tables.items():
        if not isinstance(entries, dict):
            raise Refused(f"{path}: '{table}' is outside a table; expected [cluster], [node], [zookeeper] or [timing]")
        for name, value in entries.items():
            values[f"{table}.{name}"] = _check_value(f"{table}.{name}", value, path)
    return values


def _check_value(name: str, value: Any, path: Path) -> Any:
    key = _SETTINGS_BY_NAME.get(name)
    if key is None:
        raise Refused(f"{path}: unknown setting '{name}'")
    if (key.kind is float or key.allows_seconds) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not key.kind and not (key.allows_seconds and type(value) is float):
        shown = "a value of another type" if "password" in name else repr(value)
        raise Refused(f"{path}: '{name}' must be a {key.kind.__name__}, not {shown}")
    if isinstance(value, float | int) and not isinstance(value, bool) and not 0 < value < math.inf:
        raise Refused(f"{path}: '{name}' must be more than 0, not {value!r}")
    return value


def _build_config(values: dict[str, Any], path: Path) -> Config:
    node, cluster = values["node.id"] or socket.gethostname(), values["cluster.name"]
    _check_name("node.id", node, path)
    _check_name("cluster.name", cluster, path)
    api_host, _, api_port = values["node.api"].rpartition(":")
    if not api_host or re.fullmatch("[0-9]{1,5}", api_port) is None or int(api_port) > 65535:
        raise Refused(f"{path}: 'node.api' must be HOST:PORT, not '{values['node.api']}'")
    timing = Timing(
        heartbeat_s=values["timing.heartbeat_s"],
        tick_s=values["zookeeper.tick_s"],
        sync_limit=values["zookeeper.sync_limit"],
        kill_s=values["timing.kill_s"],
        margin_s=values["timing.margin_s"],
    )
    if objection := timing.find_problem(values["zookeeper.session_timeout_s"]):
        raise Refused(f"{path}: {objection}")
    return Config(
        cluster=cluster,
        node=NodeId(node),
        directory=Path(values["node.dir"]),
        slots=values["node.slots"],
        api_host=api_host.removeprefix("[").removesuffix("]"),
        api_port=int(api_port),
        connection=_connection_settings(values, path),
        timing=timing,
        storage=values["cluster.storage"] or single_node_storage(Path(values["node.dir"])),
        stop_s=values["timing.stop_s"],
        archives=_archive_directory(os.environ.get("HOLDFAST_ARCHIVES") or values["node.archives"], Path(values["node.dir"])),
        connectors=(Path(values["node.dir"]) / (os.environ.get("HOLDFAST_CONNECTORS") or values["node.connectors"])).absolute(),
        maven=values["node.maven"],
        retention=RetentionPolicy(
            ended_s=values["cluster.keep_ended_s"],
            ended_max=values["cluster.keep_ended_max"],
            checkpoints_s=_parse_keep_checkpoints(values["cluster.keep_checkpoints"], path),
        ),
    )


def _parse_keep_checkpoints(value: str | float, path: Path) -> float | None:
    if value == "forever":
        return None
    if isinstance(value, float) and value >= KEEP_CHECKPOINTS_S_MIN:
        return value
    raise Refused(
        f"{path}: 'cluster.keep_checkpoints' must be \"forever\" or at least {KEEP_CHECKPOINTS_S_MIN:g} (seconds), "
        f"not {value!r}"
    )


def single_node_storage(directory: Path) -> str:
    """Return the default storage location, which only this node can reach."""
    return str(directory.absolute() / "storage")


def _archive_directory(setting: str, directory: Path) -> Path | None:
    return None if setting == "off" else (directory / setting).absolute()


def _check_name(key: str, name: str, path: Path) -> None:
    if not is_valid_name(name):
        raise Refused(f"{path}: '{name}' cannot be used as {key}: use at most 64 letters, digits, '.', '_' and '-'")


def _connection_settings(values: dict[str, Any], path: Path) -> ConnectionSettings:
    hosts, chroot = parse_connect_string(values["cluster.connect"])
    return ConnectionSettings(
        hosts=hosts,
        chroot=chroot,
        session_timeout_s=values["zookeeper.session_timeout_s"],
        digest=_digest(values, path),
        tls=_tls(values, path),
    )


def _digest(values: dict[str, Any], path: Path) -> DigestCredentials | None:
    user, password = values["zookeeper.user"], values["zookeeper.password"]
    if auth_file := values["zookeeper.auth_file"]:
        if user or password or values["zookeeper.password_file"]:
            raise Refused(f"{path}: zookeeper.auth_file already names the user and the password: remove the other settings")
        return read_auth_file(Path(auth_file))
    if file := values["zookeeper.password_file"]:
        try:
            password = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise Refused(f"cannot read zookeeper.password_file {file}: {reason}") from error
    if bool(user) != bool(password):
        raise Refused(f"{path}: zookeeper.user and its password must both be set: one of them is missing")
    return DigestCredentials(user, password) if user else None


def _tls(values: dict[str, Any], path: Path) -> Tls | None:
    if not values["zookeeper.tls_ca"]:
        for name in ("zookeeper.tls_certificate", "zookeeper.tls_key", "zookeeper.tls_key_password"):
            if values[name]:
                raise Refused(f"{path}: '{name}' has no effect without zookeeper.tls_ca, which enables TLS")
        return None
    certificate, key = values["zookeeper.tls_certificate"], values["zookeeper.tls_key"]
    return Tls(
        ca=Path(values["zookeeper.tls_ca"]),
        certificate=Path(certificate) if certificate else None,
        key=Path(key) if key else None,
        key_password=values["zookeeper.tls_key_password"] or None,
        check_hostname=values["zookeeper.tls_check_hostname"],
    )
