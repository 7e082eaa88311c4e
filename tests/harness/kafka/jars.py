"""Jars of Kafka brokers and of Spark's Kafka source: downloaded once with Maven, then cached in `.build`."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from holdfast.errors import Refused

ZOOKEEPER_MODE = "3.9.2"
"""Last release line that supports ZooKeeper."""
KRAFT = "4.3.1"
DOWNLOAD_TIMEOUT_S = 600
# Brokers log through slf4j without an implementation. These are the ones of Kafka's own distribution.
_LOGGING = {
    ZOOKEEPER_MODE: ("org.slf4j:slf4j-reload4j:1.7.36",),
    KRAFT: ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.2", "org.apache.logging.log4j:log4j-core:2.25.2"),
}
# Not all parts of the connector are published with each version. This combination is tested with Spark 4.3.
_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.0",
)
_BUILD = Path(__file__).parents[3] / ".build"


def broker_jars(version: str) -> Path:
    """Return the directory of a broker's jars. Raise Refused if it is not cached and cannot be downloaded."""
    return cached_jars(f"kafka-{version}", (f"org.apache.kafka:kafka_2.13:{version}", *_LOGGING[version]), transitive=True)


def connector_jars() -> list[Path]:
    """Return the jars that Spark needs to read from Kafka. Their other dependencies are part of Spark."""
    return sorted(cached_jars("spark-kafka-connector", _CONNECTOR, transitive=False).glob("*.jar"))


def cached_jars(name: str, artifacts: tuple[str, ...], *, transitive: bool) -> Path:
    directory = _BUILD / name
    _BUILD.mkdir(exist_ok=True)
    with (_BUILD / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            _download(directory, artifacts, transitive)
    return directory


def _download(directory: Path, artifacts: tuple[str, ...], transitive: bool) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise _jars_unavailable(directory, artifacts, "`mvn` is not on PATH")
    temporary = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    pom = temporary / "pom.xml"
    pom.write_text(_pom(artifacts, transitive))
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    command = [maven, "-B", "-q", "-f", str(pom), goal, "-DincludeScope=runtime", f"-DoutputDirectory={temporary}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise _jars_unavailable(directory, artifacts, f"Maven did not download them within {DOWNLOAD_TIMEOUT_S} s") from None
    if result.returncode != 0:
        problem = next((line for line in (result.stdout + result.stderr).splitlines() if "ERROR" in line), "no reason given")
        raise _jars_unavailable(directory, artifacts, f"Maven cannot download them ({problem.strip()[:300]})")
    os.rename(temporary, directory)


def _jars_unavailable(directory: Path, artifacts: tuple[str, ...], reason: str) -> Refused:
    return Refused(
        f"the jars of {artifacts[0]} are not in {directory}, and {reason}: connect to a network, or copy the jars there"
    )


def _pom(artifacts: tuple[str, ...], transitive: bool) -> str:
    dependencies = "".join(_dependency(artifact, transitive) for artifact in artifacts)
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>holdfast.tests</groupId><artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _dependency(coordinates: str, transitive: bool) -> str:
    group, artifact, version = coordinates.split(":")
    exclude_all = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{'' if transitive else exclude_all}</dependency>"
    )
