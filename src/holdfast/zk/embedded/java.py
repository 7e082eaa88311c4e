"""Find a suitable Java, and ZooKeeper's jars inside PySpark, without importing PySpark."""

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
INSTALL_JAVA = f"install JDK {VERSION_MIN} or newer and add it to PATH or set JAVA_HOME"
INSTALL_SPARK = 'install it with: pip install "holdfast[spark]"'

# Only the jars that a server loads: with all 280 of Spark's jars, a start takes a third more time and memory. Netty's native
# libraries are omitted on purpose: Netty then uses Java's sockets and TLS, and unpacks nothing into the temporary directory.
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
    """Return the `java` of JAVA_HOME if it is set, or else the first on PATH. Raises Refused if it is missing or too old."""
    home = environ.get("JAVA_HOME", "")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK) or executable.is_dir():
            raise Refused(f"JAVA_HOME is {home}, which contains no Java: {INSTALL_JAVA}")
    else:
        found = shutil.which("java", path=environ.get("PATH", os.defpath))
        if found is None:
            raise Refused(f"ZooKeeper needs Java, but `java` is not on PATH: {INSTALL_JAVA}")
        executable = Path(found)
    version = parse_version(_read_version(executable))
    if version is None:
        raise Refused(f"{executable} does not report a Java version: {INSTALL_JAVA}")
    if version < VERSION_MIN:
        raise Refused(f"{executable} is Java {version}, which is too old: {INSTALL_JAVA}")
    return executable


@functools.cache
def _read_version(executable: Path) -> str:
    # Cached: every server of an ensemble needs it.
    try:
        command = [str(executable), "-version"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=VERSION_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout


def parse_version(text: str) -> int | None:
    """Return 17 for `openjdk version "17.0.15"`, and 8 for the old format `java version "1.8.0_392"`."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def find_jars(package: str = "pyspark") -> Path:
    """Return the directory of PySpark's jars. Does not import PySpark, which takes longer than starting a server."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Refused(f"the embedded ZooKeeper needs PySpark, which is not installed: {INSTALL_SPARK}")
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    if not jars.is_dir():
        raise Refused(f"the PySpark in {jars.parent} has no jars (it may be the client-only package): {INSTALL_SPARK}")
    return jars


def class_path(jars: Path) -> str:
    """Return the class path of a ZooKeeper server: the jars in this directory that it needs."""
    files: list[Path] = []
    for pattern in _JARS_NEEDED:
        found = sorted(jars.glob(pattern))
        if not found:
            raise Refused(f"{pattern} is missing in {jars}, and ZooKeeper cannot start without it: {INSTALL_SPARK}")
        files += found
    return os.pathsep.join(str(file) for file in files)
