"""Check of the Spark master that a job names, and of the settings that this master needs in client mode. Pure.

Spark finds these mistakes only after the driver has started, on some node and at each attempt.
"""

import ipaddress
import re
from collections.abc import Mapping

from holdfast.errors import Refused

MASTER = "spark.master"
DRIVER_HOST = "spark.driver.host"
DRIVER_PORT = "spark.driver.port"
DRIVER_POD = "spark.kubernetes.driver.pod.name"
EXECUTOR_IMAGES = ("spark.kubernetes.executor.container.image", "spark.kubernetes.container.image")
_KUBERNETES = "k8s://"
_DRIVER_CREDENTIALS = "spark.kubernetes.authenticate.driver."
_CLIENT_CREDENTIALS = ("caCertFile", "clientKeyFile", "clientCertFile", "oauthToken", "oauthTokenFile")
_API_SERVER = re.compile(r"(?:https?://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?(?:/.*)?", re.IGNORECASE)
_PORT_LAST = 65_535


def check_master_settings(conf: Mapping[str, str]) -> None:
    """Raise Refused if Spark cannot start executors with these settings, whatever the node."""
    master = conf.get(MASTER, "").strip()
    if master in ("yarn-client", "yarn-cluster"):
        raise Refused(f"--conf {MASTER}={master} is not a master of this Spark: use {MASTER}=yarn")
    if master.startswith(_KUBERNETES):
        _check_api_server(master)
        _check_kubernetes(conf)


def _check_api_server(master: str) -> None:
    match = _API_SERVER.fullmatch(master.removeprefix(_KUBERNETES))
    if match is None or int(match["port"] or 0) > _PORT_LAST:
        raise Refused(f"--conf {MASTER}={master} does not name an API server: expected k8s://https://HOST:PORT")


def _check_kubernetes(conf: Mapping[str, str]) -> None:
    if not any(conf.get(name, "").strip() for name in EXECUTOR_IMAGES):
        raise Refused(
            f"a job on Kubernetes needs the image of its executors: add --conf {EXECUTOR_IMAGES[1]}=IMAGE, "
            "with the same Spark and Python as the nodes"
        )
    if DRIVER_POD in conf:
        raise Refused(
            f"--conf '{DRIVER_POD}' cannot be set: the driver runs on a node, and Spark would look for a pod with this name"
        )
    for name in _CLIENT_CREDENTIALS:
        if f"{_DRIVER_CREDENTIALS}{name}" in conf:
            raise Refused(
                f"--conf '{_DRIVER_CREDENTIALS}{name}' has no effect in client mode: use spark.kubernetes.authenticate.{name}"
            )
    _check_driver_address(conf)


def _check_driver_address(conf: Mapping[str, str]) -> None:
    """Raise Refused for an address of the driver to which executors in pods cannot connect."""
    host, port = conf.get(DRIVER_HOST, "").strip(), conf.get(DRIVER_PORT, "").strip()
    if _is_loopback(host):
        raise Refused(
            f"--conf {DRIVER_HOST}={host} is a loopback address, which pods cannot reach: use another address of the node, "
            "or leave it out and set SPARK_LOCAL_IP on each node"
        )
    if port and not (port.isdecimal() and int(port) <= _PORT_LAST):
        raise Refused(f"--conf {DRIVER_PORT}={port} is not a port: pods connect to it, so it must be 1 to {_PORT_LAST}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
