"""Build process: `python -m holdfast.runner.cds.build DIRECTORY [--at-once]` builds the class archive if it is missing.

Unless `--at-once` is given, it runs with the lowest priority, and it builds nothing while the machine is overloaded. A watchdog
kills its process tree if it dies. An archive is published atomically, and only after Java has accepted it.
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
from holdfast.driver_protocol.variables import NONCE, PREFIX
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.log import Log
from holdfast.runner.cds.archive import (
    AT_ONCE_OPTION,
    CLASS_PATH_FILE,
    EXIT_MACHINE_BUSY,
    EXIT_RETRY_LATER,
    EXIT_UNSUPPORTED,
    FAILURES_MAX,
    PROC_OPTION,
    SUFFIX,
    ArchiveDirectory,
    JavaRuntime,
    java_options,
)
from holdfast.runner.cds.low_priority import lower_priority
from holdfast.runner.cds.machine_load import PROC, find_overload
from holdfast.runner.execution.watchdog_client import WatchdogClient

ARCHIVES_KEPT = 2
"""Number of archives to keep: the newest, and its predecessor in case Java or Spark is downgraded."""
BUILD_TIMEOUT_S = 1800.0
"""Time limit of a training run, which may take long at the lowest priority."""
PROBE_TIMEOUT_S = 300.0
FREE_BYTES_MIN = 1_000_000_000
"""Free disk space that a build requires, several times the size of an archive."""
BUILD_DIRECTORY_PREFIX = "making-"
BUILD_LOG = "making.log"
EXCLUDED_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables that append to Spark's class path. An archive built without them fits with them, but not the other way round."""


class MachineBusy(Unavailable):
    """The machine is overloaded: a build would slow down the drivers, and would take too long itself."""


class ArchiveBuild:
    """One build of an archive: a training run, a probe and the publication."""

    def __init__(self, archives: ArchiveDirectory, runtime: JavaRuntime, environ: Mapping[str, str], *, at_once: bool) -> None:
        self._archives = archives
        self._runtime = runtime
        self._environ = environ
        self._at_once = at_once
        self._directory = archives.directory / f"{BUILD_DIRECTORY_PREFIX}{os.getpid()}"
        self._raw = self._directory / f"raw{SUFFIX}"
        self.log = archives.directory / BUILD_LOG

    async def build(self) -> Path:
        """Build and publish the archive; return its path. Raises HoldfastError and OSError."""
        if shutil.disk_usage(self._archives.directory).free < FREE_BYTES_MIN:
            raise Unavailable(f"{self._archives.directory} has less than {FREE_BYTES_MIN / 1e9:g} GB of free space")
        if any(character in str(self._raw) for character in ":%"):
            raise Refused(f"Java cannot read an archive in {self._archives.directory}, because the path contains ':' or '%'")
        self._directory.mkdir()
        try:
            await self._train()
            self._probe()
            return self._publish()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _train(self) -> None:
        deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + BUILD_TIMEOUT_S
        self.log.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-P",
            "-m",
            "holdfast.runner.cds.training",
            str(self._directory),
            *([AT_ONCE_OPTION] if self._at_once else []),
        ]
        watchdog = await WatchdogClient.start_watchdog(nonce=os.urandom(16).hex(), output=self.log, deadline=deadline)
        try:
            await watchdog.start_driver(command, self._environment(), self._directory)
            status = await watchdog.driver_exited
            await watchdog.tree_gone
        finally:
            await watchdog.close()
        if status != 0:
            raise Unavailable(f"the training run failed ({watchdog.kill_reason or 'it ended'}): see {self.log}")
        if not self._raw.exists():
            raise Unavailable(f"Java wrote no archive: see {self.log}")

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in self._environ.items()
            if not name.startswith(PREFIX) and name not in EXCLUDED_VARIABLES
        }
        java = [
            f"-XX:ArchiveClassesAtExit={self._raw}",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
            f"-Djava.io.tmpdir={self._directory}",
        ]
        conf = {
            "spark.driver.extraJavaOptions": shlex.join(java),
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.local.dir": str(self._directory),
            "spark.sql.warehouse.dir": str(self._directory / "warehouse"),
        }
        arguments = ["--master", "local[2]"]
        for name, value in conf.items():
            arguments += ["--conf", f"{name}={value}"]
        return {
            **inherited,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"]),
            "TMPDIR": str(self._directory),
        }

    def _probe(self) -> None:
        """Start a Java that must use the archive or fail. Raises Unavailable."""
        class_path = (self._directory / CLASS_PATH_FILE).read_text()
        options = [option for option in java_options(self._raw) if not option.startswith("-Xshare:")]
        command = [str(self._runtime.java), "-Xshare:on", *options, "-cp", class_path, "-version"]
        try:
            answer = subprocess.run(command, capture_output=True, timeout=PROBE_TIMEOUT_S, check=False, env=dict(self._environ))
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"Java did not exit within {PROBE_TIMEOUT_S:.0f} s when it was started with the archive"
            ) from None
        if answer.returncode != 0 or b"cds" in answer.stdout + answer.stderr:
            output = " ".join((answer.stdout + answer.stderr).decode(errors="replace").split())
            raise Unavailable(f"Java rejects the archive: {output[:200]}")

    def _publish(self) -> Path:
        if JavaRuntime.detect(self._environ) != self._runtime:
            raise Unavailable("Java or Spark changed during the build")
        with self._raw.open("rb") as file:
            os.fsync(file.fileno())
        target = self._archives.directory / self._archives.file_name(self._runtime, self._raw.stat().st_size)
        self._raw.replace(target)
        folder = os.open(self._archives.directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return target


def remove_old_files(directory: Path) -> None:
    """Remove old archives and unfinished builds. The caller must hold the lock. Running processes keep a removed archive."""
    for place in directory.glob(f"{BUILD_DIRECTORY_PREFIX}*"):
        shutil.rmtree(place, ignore_errors=True)
    archives = sorted(directory.glob(f"*{SUFFIX}"), key=lambda file: file.stat().st_mtime)
    for file in archives[:-ARCHIVES_KEPT]:
        file.unlink(missing_ok=True)
    for file in sorted(directory.glob("*.failures"), key=lambda file: file.stat().st_mtime)[:-ARCHIVES_KEPT]:
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[bool]:
    """Yield True if this process has the lock, False if another node of this machine is building."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def build_if_missing(
    archives: ArchiveDirectory, environ: Mapping[str, str], logger: Log, *, at_once: bool, proc: Path = PROC
) -> None:
    """Build the archive if it is missing and not too many builds have failed.

    Raises MachineBusy unless `at_once`, other HoldfastErrors and OSError.
    """
    runtime = JavaRuntime.detect(environ)
    with _lock(archives.directory) as locked:
        if (
            not locked
            or archives.find_for_runtime(runtime) is not None
            or archives.recent_failures(runtime.fingerprint, time.time()) >= FAILURES_MAX
        ):
            return
        if not at_once and (overload := find_overload(proc)):
            raise MachineBusy(overload)
        remove_old_files(archives.directory)
        started_at = time.monotonic()
        try:
            file = asyncio.run(ArchiveBuild(archives, runtime, environ, at_once=at_once).build())
        except (HoldfastError, OSError):
            archives.record_failure(runtime.fingerprint, time.time())
            raise
        remove_old_files(archives.directory)
        took_s = round(time.monotonic() - started_at, 1)
        logger.info("class archive made", file=str(file), megabytes=round(file.stat().st_size / 1e6), took_s=took_s)


def main() -> int:
    options = sys.argv[2:]
    at_once = AT_ONCE_OPTION in options
    proc = Path(options[options.index(PROC_OPTION) + 1]) if PROC_OPTION in options else PROC
    if not at_once:
        lower_priority()
    logger = log.configure_logging(component="archiving")
    environ = {name: value for name, value in os.environ.items() if name != NONCE}
    try:
        build_if_missing(ArchiveDirectory(Path(sys.argv[1]).absolute()), environ, logger, at_once=at_once, proc=proc)
    except MachineBusy as busy:
        logger.info("class archive deferred", reason=str(busy))
        return EXIT_MACHINE_BUSY
    except (HoldfastError, OSError) as error:
        logger.warning("no class archive", problem=f"drivers start without a class archive, which is slower: {error}")
        return EXIT_UNSUPPORTED if isinstance(error, Refused) else EXIT_RETRY_LATER
    return 0


if __name__ == "__main__":
    sys.exit(main())
