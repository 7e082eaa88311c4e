"""Hadoop configuration of a node: the files of HADOOP_CONF_DIR. Only what the check of YARN needs."""

import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from holdfast.errors import Unavailable

DIRECTORY_VARIABLES = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
"""Variables with the directory of the configuration. Spark puts both into its class path."""
FILES = ("core-site.xml", "yarn-site.xml")
OVERRIDE_PREFIX = "spark.hadoop."
"""Prefix of those settings of a job that Spark passes on to Hadoop."""
DEFAULT_FILE_SYSTEM = "fs.defaultFS"
DEFAULT_PORT = 8032
"""Port of a ResourceManager for clients."""
_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")
_SUBSTITUTIONS_MAX = 20
_UNSPECIFIED_HOST = "0.0.0.0"


def read_hadoop_configuration(environ: Mapping[str, str], job_conf: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the node, overridden by those of the job. Raises Unavailable. Blocks.

    Another node may have a configuration, so a missing one is not the job's fault.
    """
    directories = [Path(environ[name]) for name in DIRECTORY_VARIABLES if environ.get(name)]
    if not directories:
        raise Unavailable(
            "the node has no Hadoop configuration, which spark.master=yarn needs: "
            "set HADOOP_CONF_DIR in the environment of the node, and restart the node"
        )
    properties: dict[str, str] = {}
    for file in FILES:
        # The first directory wins, as in a class path.
        found = next((path for directory in directories if (path := directory / file).is_file()), None)
        if found is not None:
            properties |= _read_file(found)
    if not properties:
        raise Unavailable(
            f"there is no core-site.xml or yarn-site.xml in {' or '.join(map(str, directories))} (HADOOP_CONF_DIR)"
        )
    overrides = {key.removeprefix(OVERRIDE_PREFIX): value for key, value in job_conf.items() if key.startswith(OVERRIDE_PREFIX)}
    return properties | overrides


def qualify_local_path(location: str, environ: Mapping[str, str], job_conf: Mapping[str, str]) -> str:
    """Return a plain path as a `file:` URI if Spark would look for it in another file system. Never raises.

    Spark adds Hadoop's default file system to a path without a scheme. With a Hadoop configuration, that is often HDFS.
    """
    if not location.startswith("/"):
        return location
    try:
        properties = read_hadoop_configuration(environ, job_conf)
    except Unavailable:
        properties = {key.removeprefix(OVERRIDE_PREFIX): value for key, value in job_conf.items()}
    default = _value(properties, DEFAULT_FILE_SYSTEM, "file:///")
    return location if default.startswith("file:") else f"file://{location}"


def _read_file(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_bytes())
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    except ElementTree.ParseError as error:
        raise Unavailable(f"{path} is not XML: {error}") from error


def parse_properties(data: bytes) -> dict[str, str]:
    """Return the properties of a configuration file. Raises ElementTree.ParseError."""
    properties = {}
    for entry in ElementTree.fromstring(data).iter("property"):
        name, value = entry.findtext("name"), entry.findtext("value")
        if name is not None and value is not None:
            properties[name.strip()] = value.strip()
    return properties


def resource_manager_addresses(properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return host and port of each ResourceManager. Addresses that cannot be parsed are left out."""
    ids: list[str] = [""]
    if _value(properties, "yarn.resourcemanager.ha.enabled", "").lower() == "true":
        ids = [f".{id.strip()}" for id in _value(properties, "yarn.resourcemanager.ha.rm-ids", "").split(",") if id.strip()]
    addresses = (_parse_address(_address(properties, suffix)) for suffix in ids)
    return [address for address in addresses if address is not None]


def _address(properties: Mapping[str, str], suffix: str) -> str:
    host = _value(properties, f"yarn.resourcemanager.hostname{suffix}", _UNSPECIFIED_HOST)
    return _value(properties, f"yarn.resourcemanager.address{suffix}", f"{host}:{DEFAULT_PORT}")


def _parse_address(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdecimal() else None


def _value(properties: Mapping[str, str], name: str, default: str) -> str:
    """Return a property with its references to other properties replaced."""
    value = properties.get(name, default)
    for _ in range(_SUBSTITUTIONS_MAX):
        match = _VARIABLE.search(value)
        if match is None or match[1] not in properties:
            break
        value = value.replace(match[0], properties[match[1]])
    return value
