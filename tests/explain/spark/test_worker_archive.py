"""Archive for Spark workers, and messages about failed jobs."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from holdfast.explain.spark.scan_job import describe_failure
from holdfast.explain.spark.spark_session import is_local
from holdfast.explain.spark.worker_archive import write_worker_archive


def test_archive_contains_the_scan_modules_and_is_reproducible(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    archive = write_worker_archive(tmp_path)
    assert archive.read_bytes() == write_worker_archive(tmp_path / "again").read_bytes()
    with zipfile.ZipFile(archive) as file:
        names = set(file.namelist())
    assert {
        "holdfast/__init__.py",
        "holdfast/errors.py",
        "holdfast/explain/range_scan.py",
        "holdfast/explain/library/kafka.toml",
    } <= names
    assert not any("pycache" in name or "/cli/" in name or "/zk/" in name for name in names)


@pytest.mark.slow
def test_compiled_scan_works_from_the_archive(tmp_path: Path) -> None:
    """The compiled code cannot be cached there."""
    archive = write_worker_archive(tmp_path)
    (tmp_path / "x.log").write_text("2016-01-19 13:13:09,418 - INFO  [QuorumPeer[myid=1]:A@1] - LOOKING\n")
    program = f"""
import sys
sys.path.insert(0, {str(archive)!r})
from holdfast.explain.library import parse_library
from holdfast.explain.range_scan import scan_ranges
from holdfast.explain.scan.ranges import ByteRange
(found,) = scan_ranges([ByteRange(0, {str(tmp_path / "x.log")!r}, "", 0, 71)], parse_library(()), compiled=True).ranges
assert sys.modules["holdfast"].__file__.startswith({str(archive)!r})
print([event.kind for event in found.record_events.events])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout == "['zk-looking']\n"
    assert not (tmp_path / ".cache").exists()


def test_failure_of_a_spark_job_is_reduced_to_one_sentence() -> None:
    message = """Job aborted due to stage failure: Task 0 failed 4 times: org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "/x/worker.py", line 7, in main
    import numpy
ModuleNotFoundError: No module named 'numpy'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Caused by: java.lang.Exception: something else"""
    assert describe_failure(message).startswith("the Python of Spark's workers has no numpy: ")
    assert describe_failure("Refused: to read large logs, numba is needed: pip").startswith(
        "the Python of Spark's workers has no numba"
    )
    no_python = """Job aborted due to stage failure: lost task 0.0: java.io.IOException: no
\tat a.b.C.d(C.java:1)
Caused by: java.io.IOException: error=2, No such file or directory"""
    assert describe_failure(no_python) == "Spark could not read the logs: IOException: error=2, No such file or directory"
    assert describe_failure("cancelled\nby somebody") == "Spark could not read the logs: cancelled"


def test_local_masters_are_recognized() -> None:
    assert all(map(is_local, ("local", "local[2]", "local[*]", "local[2,3]")))
    assert not any(map(is_local, ("spark://h:7077", "yarn", "local-cluster[2,1,512]", "k8s://h")))
