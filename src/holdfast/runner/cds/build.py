"""`python -m holdfast.runner.cds.build DIRECTORY [--at-once]`: makes the class archive of this machine, if there is none.

A process of its own, behind everything else on the machine unless it is told not to wait. Its tree hangs on a watchdog like
that of a job, so that nothing of it outlives this process. An archive is there as a whole or not at all, and only after a Java
has taken it.
"""

import asyncio
import contextlib
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast import log
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.log import Log
from holdfast.runner.cds.archive import AT_ONCE, CLASS_PATH, FAILED, FAILURES_MAX, NEVER, SUFFIX, Archives, Ground, java_options
from holdfast.runner.cds.low_priority import step_back
from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog_client import Supervision

KEPT = 2
"""The newest, and the one before: somebody may go back to it."""
MAKE_S = 1800.0
"""It gets only what others leave, so it may take long."""
PROBE_S = 300.0
ROOM_BYTES = 1_000_000_000
"""What must be free on the disk, several times what an archive takes."""
MAKING = "making-"
LOG = "making.log"
NOT_FOR_THE_CLASS_PATH = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Spark puts these at the end of the class path. An archive made without fits with them, but none can be made with them."""


class Workplace:
    """One making of an archive."""

    def __init__(self, archives: Archives, ground: Ground, environ: Mapping[str, str], *, at_once: bool) -> None:
        self._archives = archives
        self._ground = ground
        self._environ = environ
        self._at_once = at_once
        self._place = archives.directory / f"{MAKING}{os.getpid()}"
        self._raw = self._place / f"raw{SUFFIX}"
        self.log = archives.directory / LOG

    async def make(self) -> Path:
        """Raises HoldfastError and OSError."""
        if shutil.disk_usage(self._archives.directory).free < ROOM_BYTES:
            raise Unavailable(f"there is less than {ROOM_BYTES / 1e9:g} GB free in {self._archives.directory}")
        if any(character in str(self._raw) for character in ":%"):
            raise Refused(f"Java cannot read an archive in {self._archives.directory}, because of its name")
        self._place.mkdir()
        try:
            await self._rehearse()
            self._probe()
            return self._publish()
        finally:
            shutil.rmtree(self._place, ignore_errors=True)

    async def _rehearse(self) -> None:
        deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + MAKE_S
        self.log.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-P",
            "-m",
            "holdfast.runner.cds.training",
            str(self._place),
            *([AT_ONCE] if self._at_once else []),
        ]
        supervision = await Supervision.begin(nonce=os.urandom(16).hex(), output=self.log, deadline=deadline)
        try:
            await supervision.start(command, self._environment(), self._place)
            status = await supervision.exited
            await supervision.emptied
        finally:
            await supervision.close()
        if status != 0:
            raise Unavailable(f"the rehearsal failed ({supervision.ending or 'it ended'}): see {self.log}")
        if not self._raw.exists():
            raise Unavailable(f"Java left no archive: see {self.log}")

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self._environ.items()
            if not name.startswith("HOLDFAST_") and name not in NOT_FOR_THE_CLASS_PATH
        }
        java = [
            f"-XX:ArchiveClassesAtExit={self._raw}",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
            f"-Djava.io.tmpdir={self._place}",
        ]
        conf = {
            "spark.driver.extraJavaOptions": shlex.join(java),
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.local.dir": str(self._place),
            "spark.sql.warehouse.dir": str(self._place / "warehouse"),
        }
        words = ["--master", "local[2]"]
        for name, value in conf.items():
            words += ["--conf", f"{name}={value}"]
        return {
            **kept,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
            "TMPDIR": str(self._place),
        }

    def _probe(self) -> None:
        """A Java that is told to take it or fail."""
        class_path = (self._place / CLASS_PATH).read_text()
        options = [option for option in java_options(self._raw) if not option.startswith("-Xshare:")]
        command = [str(self._ground.java), "-Xshare:on", *options, "-cp", class_path, "-version"]
        try:
            answer = subprocess.run(command, capture_output=True, timeout=PROBE_S, check=False, env=dict(self._environ))
        except subprocess.TimeoutExpired:
            raise Unavailable("a Java that was to take the archive did not end") from None
        if answer.returncode != 0 or b"cds" in answer.stdout + answer.stderr:
            said = " ".join((answer.stdout + answer.stderr).decode(errors="replace").split())
            raise Unavailable(f"Java does not take the archive: {said[:200]}")

    def _publish(self) -> Path:
        if Ground.of(self._environ) != self._ground:
            raise Unavailable("Java or Spark were changed meanwhile")
        with self._raw.open("rb") as file:
            os.fsync(file.fileno())
        target = self._archives.directory / self._archives.name(self._ground, self._raw.stat().st_size)
        self._raw.replace(target)
        folder = os.open(self._archives.directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return target


def sweep(directory: Path) -> None:
    """What is too old or was left unfinished. Only for whoever holds the lock. A Java that uses an archive keeps it."""
    for place in directory.glob(f"{MAKING}*"):
        shutil.rmtree(place, ignore_errors=True)
    archives = sorted(directory.glob(f"*{SUFFIX}"), key=lambda file: file.stat().st_mtime)
    for file in archives[:-KEPT]:
        file.unlink(missing_ok=True)
    for file in sorted(directory.glob("*.failures"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[bool]:
    """Whether it is ours. Another node of this machine may be at it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def make_if_missing(archives: Archives, environ: Mapping[str, str], logger: Log, *, at_once: bool) -> None:
    """Raises HoldfastError and OSError, but not for ever: after some failures it leaves things as they are."""
    ground = Ground.of(environ)
    with _lock(archives.directory) as alone:
        if not alone or archives.of(ground) is not None or archives.failures(ground.key, time.time()) >= FAILURES_MAX:
            return
        sweep(archives.directory)
        began = time.monotonic()
        try:
            file = asyncio.run(Workplace(archives, ground, environ, at_once=at_once).make())
        except (HoldfastError, OSError):
            archives.failed(ground.key, time.time())
            raise
        sweep(archives.directory)
        took_s = round(time.monotonic() - began, 1)
        logger.info("class archive made", file=str(file), megabytes=round(file.stat().st_size / 1e6), took_s=took_s)


def main() -> int:
    at_once = AT_ONCE in sys.argv[2:]
    if not at_once:
        step_back()
    logger = log.configure(component="archiving")
    environ = {name: value for name, value in os.environ.items() if name != process_tree.VARIABLE}
    try:
        make_if_missing(Archives(Path(sys.argv[1]).absolute()), environ, logger, at_once=at_once)
    except (HoldfastError, OSError) as error:
        logger.warning("no class archive", problem=f"drivers start more slowly than they could: {error}")
        return NEVER if isinstance(error, Refused) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
