"""The settings of a node: one frozen object, parsed from TOML at the edge.

Every key stands in `KEYS` once, with its meaning; `docs/operations.md` has the same table, and a test compares them.
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
from holdfast.model.identifiers import NodeId, is_name
from holdfast.plan.retention import Keep
from holdfast.zk.session.connection_settings import Digest, Ensemble, Tls, parse_connect
from holdfast.zk.session.timing import Timing


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: type
    default: Any
    meaning: str


KEYS = (
    Key("cluster.name", str, "default", "Which cluster: nodes and clients with the same name and ZooKeeper belong together."),
    Key("cluster.connect", str, None, "ZooKeeper servers, `HOST:PORT,HOST:PORT…[/PATH]`. Required."),
    Key("cluster.storage", str, "", "Code and checkpoints: a directory or URI that all reach. Default: in `node.dir`."),
    Key("cluster.keep_ended_s", float, 604800.0, "How long the record of a job that ended is kept."),
    Key("cluster.keep_ended_max", int, 1000, "How many of them are kept at most."),
    Key("node.id", str, "", "This node's name, unique in the cluster. Default: the machine's host name."),
    Key("node.dir", str, None, "The node's own directory, on a local disk. Required."),
    Key("node.slots", int, 4, "How many slots of work this node offers."),
    Key("node.archives", str, "archives", "A directory, in `node.dir`, for class archives: drivers start faster. `off`: none."),
    Key("node.connectors", str, "connectors", "A directory, in `node.dir`, for Spark's Kafka connector, fetched once."),
    Key("node.maven", str, "", "The Maven repository it is fetched from. Default: Spark's, which is Maven Central."),
    Key("node.api", str, "127.0.0.1:0", "Where the node serves HTTP, `HOST:PORT`; port 0 picks a free one."),
    Key("zookeeper.session_timeout_s", float, 15.0, "The session timeout to ask for. The server grants 2 to 20 of its ticks."),
    Key("zookeeper.tick_s", float, 2.0, "The servers' `tickTime`."),
    Key("zookeeper.sync_limit", int, 5, "The servers' `syncLimit`."),
    Key("zookeeper.user", str, "", "Digest user. With one, everything created belongs to it alone."),
    Key("zookeeper.password", str, "", "Its password. Better in a file: `zookeeper.password_file`."),
    Key("zookeeper.password_file", str, "", "A file that holds the password."),
    Key("zookeeper.tls_ca", str, "", "PEM file of the authorities to trust. Setting it turns TLS on."),
    Key("zookeeper.tls_certificate", str, "", "PEM file of this client's certificate."),
    Key("zookeeper.tls_key", str, "", "PEM file of its key."),
    Key("zookeeper.tls_key_password", str, "", "The key's password."),
    Key("zookeeper.tls_check_hostname", bool, True, "Whether the server's certificate must name the host connected to."),
    Key("timing.heartbeat_s", float, 1.0, "How often a leader confirms that it leads, and a node looks around."),
    Key("timing.kill_s", float, 1.0, "How long it may take to kill a process tree."),
    Key("timing.stop_s", float, 60.0, "How long a job that was asked to stop may take to the end of its batch."),
    Key("timing.margin_s", float, 5.0, "How long before the session could end a holder stops claiming it."),
)

_KEYS = {key.name: key for key in KEYS}


@dataclass(frozen=True, slots=True)
class Config:
    cluster: str
    node: NodeId
    directory: Path
    slots: int
    api_host: str
    api_port: int
    ensemble: Ensemble
    timing: Timing
    storage: str
    stop_s: float
    keep: Keep
    archives: Path | None
    """Where class archives are made and found; None if they are not wanted."""
    connectors: Path
    maven: str


def load(path: Path) -> Config:
    """The settings of a node."""
    values = _values(path)
    _require(values, path, "cluster.connect", "node.dir")
    return _build(values, path)


def load_cluster(path: Path) -> tuple[str, Ensemble]:
    """What a client needs of the same file: the cluster's name and how to reach its ZooKeeper."""
    values = _values(path)
    _require(values, path, "cluster.connect")
    _check_name("cluster.name", values["cluster.name"], path)
    return values["cluster.name"], _ensemble(values, path)


def _require(values: dict[str, Any], path: Path, *names: str) -> None:
    for name in names:
        if values[name] is None:
            raise Refused(f"{path}: '{name}' is missing ({_KEYS[name].meaning.rstrip('.')})")


def _values(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise Refused(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"{path} is not valid TOML: {error}") from error
    values = {key.name: key.default for key in KEYS}
    for table, entries in tables.items():
        if not isinstance(entries, dict):
            raise Refused(f"{path}: '{table}' stands outside a table; expected [cluster], [node], [zookeeper] or [timing]")
        for name, value in entries.items():
            values[f"{table}.{name}"] = _checked(f"{table}.{name}", value, path)
    return values


def _checked(name: str, value: Any, path: Path) -> Any:
    key = _KEYS.get(name)
    if key is None:
        raise Refused(f"{path}: unknown setting '{name}'")
    if key.kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not key.kind:
        shown = "something else" if "password" in name else repr(value)
        raise Refused(f"{path}: '{name}' must be a {key.kind.__name__}, not {shown}")
    if isinstance(value, float | int) and not isinstance(value, bool) and not 0 < value < math.inf:
        raise Refused(f"{path}: '{name}' must be more than 0, not {value!r}")
    return value


def _build(values: dict[str, Any], path: Path) -> Config:
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
    if objection := timing.objection(values["zookeeper.session_timeout_s"]):
        raise Refused(f"{path}: {objection}")
    return Config(
        cluster=cluster,
        node=NodeId(node),
        directory=Path(values["node.dir"]),
        slots=values["node.slots"],
        api_host=api_host.removeprefix("[").removesuffix("]"),
        api_port=int(api_port),
        ensemble=_ensemble(values, path),
        timing=timing,
        storage=values["cluster.storage"] or own_storage(Path(values["node.dir"])),
        stop_s=values["timing.stop_s"],
        archives=_archives(os.environ.get("HOLDFAST_ARCHIVES") or values["node.archives"], Path(values["node.dir"])),
        connectors=(Path(values["node.dir"]) / (os.environ.get("HOLDFAST_CONNECTORS") or values["node.connectors"])).absolute(),
        maven=values["node.maven"],
        keep=Keep(ended_s=values["cluster.keep_ended_s"], ended_max=values["cluster.keep_ended_max"]),
    )


def own_storage(directory: Path) -> str:
    """Where the storage of a cluster is that has one node."""
    return str(directory.absolute() / "storage")


def _archives(said: str, directory: Path) -> Path | None:
    return None if said == "off" else (directory / said).absolute()


def _check_name(what: str, name: str, path: Path) -> None:
    if not is_name(name):
        raise Refused(f"{path}: '{name}' cannot be used as {what}: letters, digits, '.', '_' and '-', 64 at most")


def _ensemble(values: dict[str, Any], path: Path) -> Ensemble:
    hosts, chroot = parse_connect(values["cluster.connect"])
    return Ensemble(
        hosts=hosts,
        chroot=chroot,
        session_timeout_s=values["zookeeper.session_timeout_s"],
        digest=_digest(values, path),
        tls=_tls(values, path),
    )


def _digest(values: dict[str, Any], path: Path) -> Digest | None:
    user, password = values["zookeeper.user"], values["zookeeper.password"]
    if file := values["zookeeper.password_file"]:
        try:
            password = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise Refused(f"cannot read zookeeper.password_file {file}: {why}") from error
    if bool(user) != bool(password):
        raise Refused(f"{path}: zookeeper.user and its password belong together: one of them is missing")
    return Digest(user, password) if user else None


def _tls(values: dict[str, Any], path: Path) -> Tls | None:
    if not values["zookeeper.tls_ca"]:
        for name in ("zookeeper.tls_certificate", "zookeeper.tls_key", "zookeeper.tls_key_password"):
            if values[name]:
                raise Refused(f"{path}: '{name}' does nothing without zookeeper.tls_ca, which turns TLS on")
        return None
    certificate, key = values["zookeeper.tls_certificate"], values["zookeeper.tls_key"]
    return Tls(
        ca=Path(values["zookeeper.tls_ca"]),
        certificate=Path(certificate) if certificate else None,
        key=Path(key) if key else None,
        key_password=values["zookeeper.tls_key_password"] or None,
        check_hostname=values["zookeeper.tls_check_hostname"],
    )
