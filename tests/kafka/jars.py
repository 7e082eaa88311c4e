"""The jars of a Kafka broker: fetched once with Maven, then taken from the cache."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from holdfast.errors import Refused

ZOOKEEPER_MODE = "3.9.2"
"""The last line of versions whose brokers can be registered in ZooKeeper."""
KRAFT = "4.3.1"
FETCH_S = 600
# Brokers log through slf4j and name no implementation; these are the ones that Kafka's own distribution adds.
_LOGGING = {
    ZOOKEEPER_MODE: ("org.slf4j:slf4j-reload4j:1.7.36",),
    KRAFT: ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.2", "org.apache.logging.log4j:log4j-core:2.25.2"),
}
_BUILD = Path(__file__).parents[2] / ".build"


def jars_of(version: str) -> Path:
    """The directory that holds them. Refused with one sentence if there is neither a cache nor a way to fill it."""
    directory = _BUILD / f"kafka-{version}"
    _BUILD.mkdir(exist_ok=True)
    with (_BUILD / f".kafka-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            _fetch(version, directory)
    return directory


def _fetch(version: str, directory: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise _no_jars(version, directory, "there is no `mvn` on PATH to fetch them with")
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    pom = unfinished / "pom.xml"
    pom.write_text(_pom(version))
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    command = [maven, "-B", "-q", "-f", str(pom), goal, "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        raise _no_jars(version, directory, f"Maven did not fetch them within {FETCH_S} s") from None
    if done.returncode != 0 or not list(unfinished.glob(f"kafka_2.13-{version}.jar")):
        problem = next((line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line), "no reason given")
        raise _no_jars(version, directory, f"Maven cannot fetch them ({problem.strip()[:300]})")
    os.rename(unfinished, directory)


def _no_jars(version: str, directory: Path, why: str) -> Refused:
    return Refused(
        f"the jars of Kafka {version} are not in {directory}, and {why}: connect to a network once, or put them there"
    )


def _pom(version: str) -> str:
    names = (f"org.apache.kafka:kafka_2.13:{version}", *_LOGGING[version])
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>holdfast.tests</groupId><artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{''.join(_dependency(*name.split(':')) for name in names)}</dependencies></project>"
    )


def _dependency(group: str, artifact: str, version: str) -> str:
    return f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
