"""The jars of Kafka brokers, and of Spark's source for them: fetched once with Maven, then taken from `.build`."""

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
# Not all of the connector's parts are published with each version. These work together, with Spark 4.3: seen, and no more.
_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.0",
)
_BUILD = Path(__file__).parents[3] / ".build"


def jars_of(version: str) -> Path:
    """The directory of a broker's jars. Refused with one sentence if there is neither a cache nor a way to fill it."""
    return cached(f"kafka-{version}", (f"org.apache.kafka:kafka_2.13:{version}", *_LOGGING[version]), with_their_own=True)


def connector_jars() -> list[Path]:
    """What a Spark of the tests needs to read from Kafka. Everything else that they need is Spark's already."""
    return sorted(cached("spark-kafka-connector", _CONNECTOR, with_their_own=False).glob("*.jar"))


def cached(name: str, artifacts: tuple[str, ...], *, with_their_own: bool) -> Path:
    directory = _BUILD / name
    _BUILD.mkdir(exist_ok=True)
    with (_BUILD / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            _fetch(directory, artifacts, with_their_own)
    return directory


def _fetch(directory: Path, artifacts: tuple[str, ...], with_their_own: bool) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise _no_jars(directory, artifacts, "there is no `mvn` on PATH to fetch them with")
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    pom = unfinished / "pom.xml"
    pom.write_text(_pom(artifacts, with_their_own))
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    command = [maven, "-B", "-q", "-f", str(pom), goal, "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        raise _no_jars(directory, artifacts, f"Maven did not fetch them within {FETCH_S} s") from None
    if done.returncode != 0:
        problem = next((line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line), "no reason given")
        raise _no_jars(directory, artifacts, f"Maven cannot fetch them ({problem.strip()[:300]})")
    os.rename(unfinished, directory)


def _no_jars(directory: Path, artifacts: tuple[str, ...], why: str) -> Refused:
    return Refused(
        f"the jars of {artifacts[0]} are not in {directory}, and {why}: connect to a network once, or put them there"
    )


def _pom(artifacts: tuple[str, ...], with_their_own: bool) -> str:
    dependencies = "".join(_dependency(*artifact.split(":"), with_their_own) for artifact in artifacts)
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>holdfast.tests</groupId><artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _dependency(group: str, artifact: str, version: str, with_their_own: bool) -> str:
    nothing_else = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{'' if with_their_own else nothing_else}</dependency>"
    )
