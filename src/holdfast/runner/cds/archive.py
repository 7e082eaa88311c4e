"""Class-data archives (CDS): classes that a driver's Java maps from one file instead of loading and linking them at each start.

Java accepts an archive only with the same Java and the same jars in the same order, each with its size and time. The name of an
archive is a hash of all these, so an archive that does not fit is not found. Java crashes on a truncated archive, so the name
also contains the length.
"""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused

FORMAT_VERSION = 1
"""Increased when the training run changes, so that new archives are built."""
SUFFIX = ".jsa"
CLASS_PATH_FILE = "class-path"
"""File to which a training run writes Java's class path."""
AT_ONCE_OPTION = "--at-once"
PROC_OPTION = "--proc"
"""Directory to read the load of the machine from, for tests."""
EXIT_RETRY_LATER, EXIT_UNSUPPORTED, EXIT_MACHINE_BUSY = 1, 2, 3
"""Exit codes of the build process: a later build may succeed; no build can succeed with this configuration; the machine is
busy."""
FAILURES_MAX = 3
FAILURE_WINDOW_S = 86_400.0
_CRASHED = "A fatal error has been detected by the Java Runtime Environment"


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """Java and Spark class path that an archive is built for."""

    java: Path
    fingerprint: str

    @classmethod
    def detect(cls, environ: Mapping[str, str]) -> "JavaRuntime":
        """Return the runtime that a driver with this environment uses. Starts no process. Raises Refused and OSError."""
        java, spark = _java(environ), _spark(environ)
        conf = Path(environ.get("SPARK_CONF_DIR") or spark / "conf")
        if conf.is_dir() and any(conf.iterdir()):
            raise Refused(f"Java cannot archive classes while {conf}, the first entry of Spark's class path, contains files")
        digest = hashlib.sha256(f"{FORMAT_VERSION}\n{conf}\n".encode())
        for file in (java, *_image(java), *_jars(spark)):
            status = file.stat()
            digest.update(f"{file}\n{status.st_size}\n{status.st_mtime_ns}\n".encode(errors="surrogateescape"))
        return cls(java, digest.hexdigest()[:20])


def _java(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH", os.defpath))
    if not found:
        raise Refused("Java was not found in JAVA_HOME or PATH")
    return Path(found).resolve(strict=True)


def _image(java: Path) -> list[Path]:
    """Return the file with Java's own classes, which differs between releases."""
    image = java.parent.parent / "lib" / "modules"
    return [image] if image.exists() else []


def _spark(environ: Mapping[str, str]) -> Path:
    if home := environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise Refused("PySpark is not installed")
    return Path(spec.submodule_search_locations[0])


def _jars(spark: Path) -> Iterator[Path]:
    """Yield Spark's jars in directory order, which is also the order of Java's class path."""
    jars = spark / "jars"
    return (jars / name for name in os.listdir(jars) if name.endswith((".jar", ".JAR")))


class ArchiveDirectory:
    """Directory of archives, shared by all jobs of a node and possibly by all nodes of a machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def find_usable(self, environ: Mapping[str, str]) -> Path | None:
        """Return the archive for a driver with this environment, or None on any problem; the driver then starts without."""
        try:
            return self.find_for_runtime(JavaRuntime.detect(environ))
        except (Refused, OSError, ValueError):
            return None

    def find_for_runtime(self, ground: JavaRuntime) -> Path | None:
        for file in self.directory.glob(f"{ground.fingerprint}-*{SUFFIX}"):
            # Java's option uses a colon to separate two archives, and a path cannot escape it.
            if file.name == self.file_name(ground, file.stat().st_size) and ":" not in str(file):
                return file
        return None

    @staticmethod
    def file_name(ground: JavaRuntime, size: int) -> str:
        return f"{ground.fingerprint}-{size}{SUFFIX}"

    def discard_after_crash(self, file: Path, output: str) -> bool:
        """Remove the archive if `output` shows that Java has crashed, because the archive may be the cause. Return True if so.

        The crash counts as a failed build, which limits the number of rebuilds.
        """
        if _CRASHED not in output:
            return False
        with contextlib.suppress(OSError):
            file.unlink()  # processes that have mapped it keep it
            self.record_failure(file.name.partition("-")[0], time.time())
        return True

    # Failed builds

    def recent_failures(self, key: str, now: float) -> int:
        """Return the number of failed builds, or 0 if the last one is older than a day."""
        file = self._failures(key)
        try:
            return int(file.read_text()) if now - file.stat().st_mtime < FAILURE_WINDOW_S else 0
        except (OSError, ValueError):
            return 0

    def record_failure(self, key: str, now: float) -> None:
        write_atomically(self._failures(key), str(self.recent_failures(key, now) + 1).encode())

    def _failures(self, key: str) -> Path:
        return self.directory / f"{key}.failures"


def java_options(file: Path) -> tuple[str, ...]:
    """Return Java's options for an archive. With these, Java silently ignores an archive that does not fit."""
    return ("-Xshare:auto", f"-XX:SharedArchiveFile={file}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
