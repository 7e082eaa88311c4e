"""Spark's Kafka connector: downloaded once per node and Spark version, and put on the class path of jobs that use Kafka.

The decision is made from the job's source code before the script runs: the class path of a running JVM cannot be extended.
"""

import ast
import contextlib
import fcntl
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.driver.stderr_log import log_line
from holdfast.driver_protocol.variables import CONNECTORS, KAFKA_CONNECTOR
from holdfast.errors import Unavailable

ARTIFACT = "spark-sql-kafka-0-10"
PROVIDER = "org.apache.spark.sql.kafka010"
FETCH_TIMEOUT_S = 300.0
_CORE = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<spark>.+)\.jar")
_PROBLEM = re.compile(r"(?:unresolved dependency|download failed|Server access error)[^\],]*: *([^\],:]+)")


# Detection of Kafka sources


def uses_kafka(source: str) -> bool:
    """Return True if Python source calls `.format("kafka")` or passes `format="kafka"` to a call."""
    if "kafka" not in source.lower():
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # the driver reports the error when it compiles the script
    return any(_call_names_kafka(node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _call_names_kafka(call: ast.Call) -> bool:
    formats = [keyword.value for keyword in call.keywords if keyword.arg in ("format", "source")]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "format":
        formats += call.args[:1] + [keyword.value for keyword in call.keywords]
    return any(isinstance(value, ast.Constant) and _is_kafka(value.value) for value in formats)


def _is_kafka(value: object) -> bool:
    return isinstance(value, str) and (value.lower() == "kafka" or value.startswith(PROVIDER))


def any_file_uses_kafka(folder: Path) -> bool:
    """Return True if a source file below the folder uses Kafka. Searches .zip, .whl and .egg files, too."""
    return any(uses_kafka(source) for source in _sources(folder))


def _sources(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")):
        with contextlib.suppress(OSError, zipfile.BadZipFile):
            if file.suffix in (".py", ".sql"):
                yield file.read_text(encoding="utf-8", errors="replace")
            elif file.suffix in (".zip", ".whl", ".egg"):
                with zipfile.ZipFile(file) as packed:
                    for name in packed.namelist():
                        if name.endswith(".py"):
                            yield packed.read(name).decode(errors="replace")


# Download


@dataclass(frozen=True, slots=True)
class KafkaConnector:
    """Kafka connector that matches one Spark installation."""

    spark_home: Path
    coordinates: str

    @classmethod
    def for_spark(cls, variables: Mapping[str, str], version: str = "") -> "KafkaConnector | None":
        """Return the connector for the configured Spark; by default it has Spark's version.

        Returns None if there is no Spark, or if its `jars` folder contains the connector already.
        """
        home = _spark_home(variables)
        with contextlib.suppress(OSError):
            names = os.listdir(home / "jars") if home is not None else []
            core = next(filter(None, map(_CORE.fullmatch, names)), None)
            if home is not None and core is not None and not any(name.startswith(ARTIFACT) for name in names):
                return cls(home, f"org.apache.spark:{ARTIFACT}_{core['scala']}:{version or core['spark']}")
        return None

    @property
    def directory_name(self) -> str:
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}"

    def find_jars(self, directory: Path) -> list[Path]:
        """Return the stored jars, or an empty list if the connector itself is not among them."""
        jars = sorted((directory / self.directory_name).glob("*.jar"))
        return jars if any(ARTIFACT in jar.name for jar in jars) else []

    def fetch(self, directory: Path, variables: Mapping[str, str]) -> list[Path]:
        """Download the connector with Spark's resolver, unless it is stored already. Return its jars. Raises Unavailable."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with _exclusive_lock(directory):
                if jars := self.find_jars(directory):  # another job of this node has downloaded them meanwhile
                    return jars
                log_line(f"downloading {self.coordinates} into {directory / self.directory_name} (once per node)")
                with tempfile.TemporaryDirectory(prefix=".fetching-", dir=directory) as download:
                    self._resolve(Path(download), variables)
                    shutil.rmtree(directory / self.directory_name, ignore_errors=True)  # an incomplete earlier download
                    (Path(download) / "jars").rename(directory / self.directory_name)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._unavailable(directory, str(error)) from error
        return self.find_jars(directory)

    def _resolve(self, download: Path, variables: Mapping[str, str]) -> None:
        empty_script = download / "empty.py"
        empty_script.write_text("")
        settings = {"spark.jars.ivy": str(download), "spark.ui.enabled": "false"}
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = [str(self.spark_home / "bin" / "spark-submit"), *conf, "--packages", self.coordinates, str(empty_script)]
        environment = {name: value for name, value in variables.items() if name != "PYSPARK_SUBMIT_ARGS"}
        # An empty home hides the user's Maven cache: the resolver fails on an entry there whose jar is missing.
        options = f"{variables.get('SPARK_SUBMIT_OPTS', '')} -Duser.home={shlex.quote(str(download))}"
        environment["SPARK_SUBMIT_OPTS"] = options.strip()
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=FETCH_TIMEOUT_S, check=False
        )
        output = (done.stdout + done.stderr).decode(errors="replace")
        if not any(ARTIFACT in jar.name for jar in (download / "jars").glob("*.jar")):
            log_line(output[-4000:])
            raise self._unavailable(download.parent, _resolver_problem(output))

    def _unavailable(self, directory: Path, why: str) -> Unavailable:
        return Unavailable(
            f"the job uses Kafka, but Spark's Kafka connector cannot be downloaded ({why}): put the jars of {self.coordinates} "
            f"into {directory / self.directory_name}, set `node.maven` to a reachable repository, or select another version "
            "with --conf holdfast.kafka.connector=VERSION"
        )


def _resolver_problem(output: str) -> str:
    problems = [" ".join(line.split()) for line in _PROBLEM.findall(output)]
    return problems[0][:200] if problems else "Spark's resolver gave no reason; see the driver's log"


@contextlib.contextmanager
def _exclusive_lock(directory: Path) -> Iterator[None]:
    """Hold a file lock for all processes of this node. The kernel releases it when the process ends."""
    with (directory / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _spark_home(variables: Mapping[str, str]) -> Path | None:
    if home := variables.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).resolve().parent if spec is not None and spec.origin else None


# Class path


def provide_connector(script: str, variables: MutableMapping[str, str]) -> None:
    """Add the connector to `PYSPARK_SUBMIT_ARGS` if the job needs it. Raises Unavailable if it cannot be downloaded."""
    directory, choice = variables.get(CONNECTORS, ""), variables.get(KAFKA_CONNECTOR, "")
    words = shlex.split(variables.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    if not directory or choice == "off" or _includes_connector(words):
        return
    if not choice and not any_file_uses_kafka(Path(script).resolve().parent):
        return
    connector = KafkaConnector.for_spark(variables, choice if choice != "on" else "")
    if connector is None:
        return
    jars = connector.find_jars(Path(directory)) or connector.fetch(Path(directory), variables)
    variables["PYSPARK_SUBMIT_ARGS"] = shlex.join(_with_jars(words, jars))


def _includes_connector(words: list[str]) -> bool:
    return any(ARTIFACT in word for word in words)


def _with_jars(words: list[str], jars: list[Path]) -> list[str]:
    """Append the jars to `spark.jars`, and keep the jars that the job names there."""
    added = ",".join(map(str, jars))
    for index, word in enumerate(words):
        if word.startswith("spark.jars=") and words[index - 1] == "--conf":
            return [*words[:index], f"{word},{added}", *words[index + 1 :]]
    return ["--conf", f"spark.jars={added}", *words]
