"""Finding a Java that is new enough, and the jars of ZooKeeper inside PySpark, without importing PySpark."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import Refused

VERSION_MIN = 17
VERSION_WAIT_S = 30
INSTALL_JAVA = f"install a JDK {VERSION_MIN} or newer, and put it on PATH or name it in JAVA_HOME"
INSTALL_SPARK = 'install it with: pip install "holdfast[spark]"'

# Only what a server can load. All of Spark's 280 jars on the class path cost a third more time and memory at each
# start. The native parts of Netty are left out on purpose: without them it uses Java's own sockets and TLS and unpacks
# no libraries into the temporary directory.
_JARS_NEEDED = (
    "zookeeper-3*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-2*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "commons-io-*.jar",
    "snappy-java-*.jar",
    "netty-buffer-*.jar",
    "netty-codec-base-*.jar",
    "netty-common-*.jar",
    "netty-handler-4*.jar",
    "netty-resolver-4*.jar",
    "netty-tcnative-classes-*.jar",
    "netty-transport-4*.jar",
    "netty-transport-classes-epoll-*.jar",
    "netty-transport-native-unix-common-*.jar",
)


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """The `java` to use: that of JAVA_HOME if it is set, else the first on PATH. Refused if missing or too old."""
    home = environ.get("JAVA_HOME", "")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK) or executable.is_dir():
            raise Refused(f"JAVA_HOME is {home}, but there is no Java in it: {INSTALL_JAVA}")
    else:
        found = shutil.which("java", path=environ.get("PATH", os.defpath))
        if found is None:
            raise Refused(f"ZooKeeper needs Java, and there is no `java` on PATH: {INSTALL_JAVA}")
        executable = Path(found)
    version = parse_version(_ask_version(executable))
    if version is None:
        raise Refused(f"{executable} does not say which Java it is: {INSTALL_JAVA}")
    if version < VERSION_MIN:
        raise Refused(f"{executable} is Java {version}, which is too old: {INSTALL_JAVA}")
    return executable


@functools.cache
def _ask_version(executable: Path) -> str:
    # Remembered, because every server of an ensemble asks the same question.
    try:
        command = [str(executable), "-version"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=VERSION_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout


def parse_version(text: str) -> int | None:
    """17 for `openjdk version "17.0.15"`, and 8 for the old way of writing it, `java version "1.8.0_392"`."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def find_jars(package: str = "pyspark") -> Path:
    """The directory of jars inside PySpark. Importing PySpark to ask would cost more than starting a server."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Refused(f"the embedded ZooKeeper comes with PySpark, which is not installed: {INSTALL_SPARK}")
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    if not jars.is_dir():
        raise Refused(f"the PySpark in {jars.parent} has no jars (it may be the client only): {INSTALL_SPARK}")
    return jars


def class_path(jars: Path) -> str:
    """What goes after `java -cp`: of the jars in this directory those that a ZooKeeper server needs."""
    files: list[Path] = []
    for pattern in _JARS_NEEDED:
        found = sorted(jars.glob(pattern))
        if not found:
            raise Refused(f"{pattern} is missing in {jars}, so ZooKeeper cannot be started from it: {INSTALL_SPARK}")
        files += found
    return os.pathsep.join(str(file) for file in files)
