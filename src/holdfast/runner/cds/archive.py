"""Class archives: what the Java of a driver would read, check and link at each start, mapped from one file instead.

Java takes an archive only where everything is as it was when the archive was made: the same Java, the same jars in the same
order, each with its size and time. So the name of an archive is made from all of that, and one that does not fit is not found.
Java would crash on an archive that was cut short, so the length stands in the name as well.
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

FORMAT = 1
"""Counts up when the rehearsal changes, so that new archives are made."""
SUFFIX = ".jsa"
CLASS_PATH = "class-path"
"""The file in which a rehearsal writes down the class path that Java was started with."""
AT_ONCE = "--at-once"
FAILED, NEVER = 1, 2
"""What the process that makes one exits with: it may be tried again; it will not work like this."""
FAILURES_MAX = 3
FORGIVE_S = 86_400.0
_CRASHED = "A fatal error has been detected by the Java Runtime Environment"


@dataclass(frozen=True, slots=True)
class Ground:
    """What an archive stands on: one Java, and one class path of Spark's."""

    java: Path
    key: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Ground":
        """As a driver with this environment would find it. Asks no program, imports no PySpark. Raises Refused and OSError."""
        java, spark = _java(environ), _spark(environ)
        conf = Path(environ.get("SPARK_CONF_DIR") or spark / "conf")
        if conf.is_dir() and any(conf.iterdir()):
            raise Refused(f"Java cannot archive classes while {conf}, which comes first in Spark's class path, has files in it")
        digest = hashlib.sha256(f"{FORMAT}\n{conf}\n".encode())
        for file in (java, *_image(java), *_jars(spark)):
            status = file.stat()
            digest.update(f"{file}\n{status.st_size}\n{status.st_mtime_ns}\n".encode(errors="surrogateescape"))
        return cls(java, digest.hexdigest()[:20])


def _java(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH", os.defpath))
    if not found:
        raise Refused("there is no Java")
    return Path(found).resolve(strict=True)


def _image(java: Path) -> list[Path]:
    """The file that holds Java's own classes: another release has another one, under the same path or not."""
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
    """In the directory's own order, which is also that of Java's class path."""
    jars = spark / "jars"
    return (jars / name for name in os.listdir(jars) if name.endswith((".jar", ".JAR")))


class Archives:
    """A directory of archives, for all jobs of a node, or of all nodes of one machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def find(self, environ: Mapping[str, str]) -> Path | None:
        """The one that a driver with this environment can use. Whatever is wrong, drivers start without."""
        try:
            return self.of(Ground.of(environ))
        except (Refused, OSError, ValueError):
            return None

    def of(self, ground: Ground) -> Path | None:
        for file in self.directory.glob(f"{ground.key}-*{SUFFIX}"):
            # A colon separates two archives in Java's option; there is no way to write one that belongs to a path.
            if file.name == self.name(ground, file.stat().st_size) and ":" not in str(file):
                return file
        return None

    @staticmethod
    def name(ground: Ground, size: int) -> str:
        return f"{ground.key}-{size}{SUFFIX}"

    def distrust(self, file: Path, output: str) -> bool:
        """Whether that is what a crashed Java has printed. Then its archive may be why, and nobody uses it again.

        Another one is made, but not for ever: it counts as one that failed.
        """
        if _CRASHED not in output:
            return False
        with contextlib.suppress(OSError):
            file.unlink()  # whoever has it mapped keeps it
            self.failed(file.name.partition("-")[0], time.time())
        return True

    # How often one could not be made

    def failures(self, key: str, now: float) -> int:
        """Those of the last day; older ones are forgiven."""
        file = self._failures(key)
        try:
            return int(file.read_text()) if now - file.stat().st_mtime < FORGIVE_S else 0
        except (OSError, ValueError):
            return 0

    def failed(self, key: str, now: float) -> None:
        write_atomically(self._failures(key), str(self.failures(key, now) + 1).encode())

    def _failures(self, key: str) -> Path:
        return self.directory / f"{key}.failures"


def java_options(file: Path) -> tuple[str, ...]:
    """With `auto`, an archive that does not fit after all is left alone; and nothing is said of it in anybody's log."""
    return ("-Xshare:auto", f"-XX:SharedArchiveFile={file}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
