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

from holdfast.log import configure
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Spec
from holdfast.node.cds_keeper import Archivist
from holdfast.runner.cds.archive import Archives, java_options
from holdfast.runner.driver_command import Command, Supplies
from holdfast.runner.lease import Run
from holdfast.storage import open_storage
from tests.harness.waiting import eventually, soon

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
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """With a space in its path, because people have such directories. Made without stepping back: others may be at work."""
    directory = tmp_path_factory.mktemp("the archives")
    process = archiving(directory, "--at-once")
    _, said = process.communicate(timeout=MAKE_S)
    log = directory / "making.log"
    assert process.returncode == 0, said + (log.read_text() if log.exists() else "")
    return Archives(directory)


def driver(archives: Archives, tmp_path: Path, *java: str) -> tuple[str, list[str]]:
    """What a driver prints, and where its Java took its classes from."""
    loaded = tmp_path / "loaded"
    (tmp_path / "storage").mkdir()
    storage = open_storage(str(tmp_path / "storage"))
    (tmp_path / "job.py").write_text(SCRIPT)
    own = " ".join([*java, shlex.quote(f"-Xlog:class+load:file={loaded}")])
    conf = (("spark.master", "local[1]"), ("spark.driver.extraJavaOptions", own))
    spec = Spec("words", "job.py", storage.put(tmp_path / "job.py"), conf=conf)
    run = Run(JobId("j1"), Attempt(1), NodeId("n1"), "nonce")
    command = Command(run, spec, tmp_path / "attempt", storage, supplies=Supplies(archives=archives))
    command.fetch()
    done = subprocess.run(
        command.line,
        env=command.environment(os.environ),
        cwd=command.work,
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


def test_a_driver_takes_most_of_its_classes_from_the_archive(archives: Archives, tmp_path: Path) -> None:
    said, loaded = driver(archives, tmp_path)
    # The rest is Java's own archive, and what is only made while a program runs.
    assert shared(loaded) > len(loaded) * 0.5, f"{shared(loaded)} of {len(loaded)}"
    assert "cds" not in said.lower() and "archive" not in said.lower(), said


def test_a_driver_whose_class_path_differs_starts_without_a_word(archives: Archives, tmp_path: Path) -> None:
    file = archives.find(os.environ)
    assert file is not None
    elsewhere = tmp_path / "elsewhere.jar"
    shutil.copy(next(Path(line) for line in class_path() if "slf4j" in line), elsewhere)
    command = ["java", *java_options(file), "-cp", str(elsewhere), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=MAKE_S)
    assert done.stdout == "" and "cds" not in done.stderr and "archive" not in done.stderr


def class_path() -> Iterator[str]:
    import pyspark

    return map(str, (Path(pyspark.__file__).parent / "jars").iterdir())


def test_an_archive_that_is_there_is_not_made_again(archives: Archives) -> None:
    before = [(file.name, file.stat().st_mtime_ns) for file in archives.directory.glob("*.jsa")]
    process = archiving(archives.directory)
    assert process.communicate(timeout=MAKE_S)[1] == ""
    assert [(file.name, file.stat().st_mtime_ns) for file in archives.directory.glob("*.jsa")] == before


# When the process that makes it ends


def at_work_in(directory: Path) -> list[int]:
    """Every process whose current directory is there, and has not ended."""
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


def test_a_maker_that_is_killed_takes_everything_with_it_and_leaves_no_archive(tmp_path: Path) -> None:
    process = archiving(tmp_path / "archives", "--at-once")
    eventually(lambda: any(map(is_java, at_work_in(tmp_path))), MAKE_S, "Java is at work")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    eventually(lambda: not at_work_in(tmp_path), 60, "all are gone")
    assert Archives(tmp_path / "archives").find(os.environ) is None


def test_a_node_that_ends_takes_the_maker_with_it(tmp_path: Path) -> None:
    async def test() -> set[int]:
        archivist = Archivist(tmp_path / "archives", tmp_path / "attempts", configure(component="test"), settle_s=0)
        running = asyncio.ensure_future(archivist.run())
        await soon(lambda: at_work_in(tmp_path), MAKE_S, "the rehearsal is at work")
        priorities = {os.getpriority(os.PRIO_PROCESS, pid) for pid in at_work_in(tmp_path)}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return priorities

    priorities = asyncio.run(test())
    eventually(lambda: not at_work_in(tmp_path), 60, "all are gone")
    assert priorities == {19}
