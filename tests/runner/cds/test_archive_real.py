"""Class archives with a real Java and a real Spark."""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.log import configure_logging
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Spec
from holdfast.node.cds_keeper import CdsKeeper
from holdfast.runner.cds.archive import ArchiveDirectory, java_options
from holdfast.runner.execution.driver_command import DriverCommand, NodeResources
from holdfast.runner.lease import AttemptAssignment
from holdfast.storage import open_storage
from tests.harness.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

MAKE_S = 800.0
SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("rows:", spark.range(10).count())
spark.stop()
"""


def archiving(directory: Path, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "holdfast.runner.cds.build", str(directory), *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> ArchiveDirectory:
    """Archive directory with a space in its path, built at normal priority because other tests use the CPU."""
    directory = tmp_path_factory.mktemp("the archives")
    process = archiving(directory, "--at-once")
    _, printed_text = process.communicate(timeout=MAKE_S)
    log = directory / "making.log"
    assert process.returncode == 0, printed_text + (log.read_text() if log.exists() else "")
    return ArchiveDirectory(directory)


def driver(archives: ArchiveDirectory, tmp_path: Path, *java: str) -> tuple[str, list[str]]:
    """Return the output of a driver, and the log lines about the origin of its classes."""
    loaded = tmp_path / "loaded"
    (tmp_path / "storage").mkdir()
    storage = open_storage(str(tmp_path / "storage"))
    (tmp_path / "job.py").write_text(SCRIPT)
    own = " ".join([*java, shlex.quote(f"-Xlog:class+load:file={loaded}")])
    conf = (("spark.master", "local[1]"), ("spark.driver.extraJavaOptions", own))
    spec = Spec("words", "job.py", storage.put(tmp_path / "job.py"), conf=conf)
    run = AttemptAssignment(JobId("j1"), Attempt(1), NodeId("n1"), "nonce")
    command = DriverCommand(run, spec, tmp_path / "attempt", storage, resources=NodeResources(cds_archives=archives))
    command.fetch_code()
    done = subprocess.run(
        command.arguments,
        env=command.build_environment(os.environ),
        cwd=command.work_directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=MAKE_S,
    )
    assert "rows: 10" in done.stdout, done.stdout
    return done.stdout, loaded.read_text().splitlines()


def shared(loaded: list[str]) -> int:
    return sum("shared objects file (top)" in line for line in loaded)


def test_driver_loads_most_classes_from_the_archive(archives: ArchiveDirectory, tmp_path: Path) -> None:
    printed_text, loaded = driver(archives, tmp_path)
    # The other classes come from Java's own archive or are generated at run time.
    assert shared(loaded) > len(loaded) * 0.5, f"{shared(loaded)} of {len(loaded)}"
    assert "cds" not in printed_text.lower() and "archive" not in printed_text.lower(), printed_text


def test_driver_with_another_class_path_starts_without_a_message(archives: ArchiveDirectory, tmp_path: Path) -> None:
    file = archives.find_usable(os.environ)
    assert file is not None
    elsewhere = tmp_path / "elsewhere.jar"
    shutil.copy(next(Path(line) for line in class_path() if "slf4j" in line), elsewhere)
    command = ["java", *java_options(file), "-cp", str(elsewhere), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=MAKE_S)
    assert done.stdout == "" and "cds" not in done.stderr and "archive" not in done.stderr


def class_path() -> Iterator[str]:
    import pyspark

    return map(str, (Path(pyspark.__file__).parent / "jars").iterdir())


def test_existing_archive_is_not_built_again(archives: ArchiveDirectory) -> None:
    before = [(file.name, file.stat().st_mtime_ns) for file in archives.directory.glob("*.jsa")]
    process = archiving(archives.directory)
    assert process.communicate(timeout=MAKE_S)[1] == ""
    assert [(file.name, file.stat().st_mtime_ns) for file in archives.directory.glob("*.jsa")] == before


# Death of the build process


def processes_in(directory: Path) -> list[int]:
    """Return the pids of all live processes whose current directory is below `directory`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(directory) in os.readlink(process / "cwd"):
                found.append(int(process.name))
    return found


def is_java(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe").endswith("/java")
    return False


def test_killed_build_leaves_no_process_and_no_archive(tmp_path: Path) -> None:
    process = archiving(tmp_path / "archives", "--at-once")
    wait_until(lambda: any(map(is_java, processes_in(tmp_path))), MAKE_S, "Java is at work")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not processes_in(tmp_path), 60, "all are gone")
    assert ArchiveDirectory(tmp_path / "archives").find_usable(os.environ) is None


def test_build_ends_with_its_node(tmp_path: Path) -> None:
    async def test() -> set[int]:
        archivist = CdsKeeper(
            tmp_path / "archives",
            tmp_path / "attempts",
            configure_logging(component="test"),
            start_delay_s=0,
            proc=tmp_path,  # without information about the load, the machine counts as idle
        )
        running = asyncio.ensure_future(archivist.run())
        await wait_until_async(lambda: processes_in(tmp_path), MAKE_S, "the rehearsal is at work")
        priorities = {os.getpriority(os.PRIO_PROCESS, pid) for pid in processes_in(tmp_path)}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return priorities

    priorities = asyncio.run(test())
    wait_until(lambda: not processes_in(tmp_path), 60, "all are gone")
    assert priorities == {19}
