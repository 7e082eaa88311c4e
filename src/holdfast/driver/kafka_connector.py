"""Spark's own Kafka connector, for a job that names a Kafka source: fetched once per node and Spark, and kept.

It is found by what the job's Python says, before a line of it has run: once Java runs, nothing can be put on its class path.
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

from holdfast.driver.stderr_log import say
from holdfast.errors import Unavailable

ARTIFACT = "spark-sql-kafka-0-10"
PROVIDER = "org.apache.spark.sql.kafka010"
FETCH_S = 300.0
MIRROR = "DEFAULT_ARTIFACT_REPOSITORY"
"""The variable in which Spark's own resolver looks for another place than Maven Central."""
_CORE = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<spark>.+)\.jar")
_TROUBLE = re.compile(r"(?:unresolved dependency|download failed|Server access error)[^\],]*: *([^\],:]+)")


# Whether it is needed


def names_kafka(source: str) -> bool:
    """Whether a program says `.format("kafka")`, or hands `format="kafka"` to something."""
    if "kafka" not in source.lower():
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # it will not run, and that is told where it is compiled
    return any(_calls_for_kafka(node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _calls_for_kafka(call: ast.Call) -> bool:
    said = [keyword.value for keyword in call.keywords if keyword.arg in ("format", "source")]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "format":
        said += call.args[:1] + [keyword.value for keyword in call.keywords]
    return any(isinstance(value, ast.Constant) and _is_kafka(value.value) for value in said)


def _is_kafka(value: object) -> bool:
    return isinstance(value, str) and (value.lower() == "kafka" or value.startswith(PROVIDER))


def any_names_kafka(folder: Path) -> bool:
    """Any of the Python files of a job, also of those that were packed."""
    return any(names_kafka(source) for source in _sources(folder))


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


# Which one, and where


@dataclass(frozen=True, slots=True)
class Connector:
    """The one that belongs to a Spark."""

    home: Path
    """Of that Spark."""
    coordinates: str

    @classmethod
    def of(cls, variables: Mapping[str, str], version: str = "") -> "Connector | None":
        """None if there is no Spark, or one that has the connector among its own jars. Its version is Spark's, by default."""
        home = _spark_home(variables)
        with contextlib.suppress(OSError):
            names = os.listdir(home / "jars") if home is not None else []
            core = next(filter(None, map(_CORE.fullmatch, names)), None)
            if home is not None and core is not None and not any(name.startswith(ARTIFACT) for name in names):
                return cls(home, f"org.apache.spark:{ARTIFACT}_{core['scala']}:{version or core['spark']}")
        return None

    @property
    def folder(self) -> str:
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}"

    def jars(self, directory: Path) -> list[Path]:
        """Those that are there, fetched or put there by a person; none unless the connector itself is among them."""
        found = sorted((directory / self.folder).glob("*.jar"))
        return found if any(ARTIFACT in jar.name for jar in found) else []

    def fetch(self, directory: Path, variables: Mapping[str, str]) -> list[Path]:
        """By Spark's own resolver. Raises Unavailable, in a sentence."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with _alone(directory):
                if found := self.jars(directory):  # by another job of this node, meanwhile
                    return found
                say(f"fetching {self.coordinates}, once for this node, into {directory / self.folder}")
                with tempfile.TemporaryDirectory(prefix=".fetching-", dir=directory) as place:
                    self._resolve(Path(place), variables)
                    shutil.rmtree(directory / self.folder, ignore_errors=True)  # without the connector it was of no use
                    (Path(place) / "jars").rename(directory / self.folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._unavailable(directory, str(error)) from error
        return self.jars(directory)

    def _resolve(self, place: Path, variables: Mapping[str, str]) -> None:
        nothing = place / "nothing.py"
        nothing.write_text("")
        settings = {"spark.jars.ivy": str(place), "spark.ui.enabled": "false"}
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = [str(self.home / "bin" / "spark-submit"), *conf, "--packages", self.coordinates, str(nothing)]
        ours = {name: value for name, value in variables.items() if name != "PYSPARK_SUBMIT_ARGS"}
        # Without the user's own Maven cache: a description there whose jar is missing would be the end of the search.
        ours["SPARK_SUBMIT_OPTS"] = f"{variables.get('SPARK_SUBMIT_OPTS', '')} -Duser.home={shlex.quote(str(place))}".strip()
        done = subprocess.run(command, env=ours, stdin=subprocess.DEVNULL, capture_output=True, timeout=FETCH_S, check=False)
        told = (done.stdout + done.stderr).decode(errors="replace")
        if not any(ARTIFACT in jar.name for jar in (place / "jars").glob("*.jar")):
            say(told[-4000:])
            raise self._unavailable(place.parent, _trouble(told))

    def _unavailable(self, directory: Path, why: str) -> Unavailable:
        return Unavailable(
            f"it names a Kafka source, and Spark's connector cannot be fetched ({why}): put the jars of {self.coordinates} "
            f"into {directory / self.folder}, set `node.maven` to a mirror, or say --conf holdfast.kafka.connector=VERSION"
        )


def _trouble(told: str) -> str:
    lines = [" ".join(line.split()) for line in _TROUBLE.findall(told)]
    return lines[0][:200] if lines else "Spark's resolver did not say why (see the log)"


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One process of this node at a time. The lock goes with whoever holds it."""
    with (directory / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _spark_home(variables: Mapping[str, str]) -> Path | None:
    if home := variables.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).resolve().parent if spec is not None and spec.origin else None


# What a driver does about it


def provide(script: str, variables: MutableMapping[str, str]) -> None:
    """Have the next Java of this process find the connector, if the job needs one. Raises Unavailable."""
    directory, said = variables.get("HOLDFAST_CONNECTORS", ""), variables.get("HOLDFAST_KAFKA_CONNECTOR", "")
    words = shlex.split(variables.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    if not directory or said == "off" or _brings_its_own(words):
        return
    if not said and not any_names_kafka(Path(script).resolve().parent):
        return
    connector = Connector.of(variables, said if said != "on" else "")
    if connector is None:
        return
    jars = connector.jars(Path(directory)) or connector.fetch(Path(directory), variables)
    variables["PYSPARK_SUBMIT_ARGS"] = shlex.join(_with_jars(words, jars))


def _brings_its_own(words: list[str]) -> bool:
    return any(ARTIFACT in word for word in words)


def _with_jars(words: list[str], jars: list[Path]) -> list[str]:
    """Added to those that the job has."""
    ours = ",".join(map(str, jars))
    for index, word in enumerate(words):
        if word.startswith("spark.jars=") and words[index - 1] == "--conf":
            return [*words[:index], f"{word},{ours}", *words[index + 1 :]]
    return ["--conf", f"spark.jars={ours}", *words]
