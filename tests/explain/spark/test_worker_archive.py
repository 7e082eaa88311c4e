"""What goes to workers, and what is said if they fail."""

import subprocess
import sys
import zipfile
from pathlib import Path

from holdfast.explain.spark.scan_job import failure
from holdfast.explain.spark.session import is_local
from holdfast.explain.spark.worker_archive import package


def test_the_archive_has_what_scanning_needs_and_is_always_the_same(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    archive = package(tmp_path)
    assert archive.read_bytes() == package(tmp_path / "again").read_bytes()
    with zipfile.ZipFile(archive) as file:
        names = set(file.namelist())
    assert {
        "holdfast/__init__.py",
        "holdfast/errors.py",
        "holdfast/explain/range_scan.py",
        "holdfast/explain/library/kafka.toml",
    } <= names
    assert not any("pycache" in name or "/cli/" in name or "/zk/" in name for name in names)


def test_scanning_works_from_the_archive_compiled_as_well(tmp_path: Path) -> None:
    """Where nothing that was compiled can be kept."""
    archive = package(tmp_path)
    (tmp_path / "x.log").write_text("2016-01-19 13:13:09,418 - INFO  [QuorumPeer[myid=1]:A@1] - LOOKING\n")
    program = f"""
import sys
sys.path.insert(0, {str(archive)!r})
from holdfast.explain.library import library_of
from holdfast.explain.range_scan import scan
from holdfast.explain.scan.ranges import Range
(found,) = scan([Range(0, {str(tmp_path / "x.log")!r}, "", 0, 71)], library_of(()), compiled=True).ranges
assert sys.modules["holdfast"].__file__.startswith({str(archive)!r})
print([event.kind for event in found.own.events])
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


def test_of_what_spark_says_when_a_task_fails_one_sentence_is_left() -> None:
    words = """Job aborted due to stage failure: Task 0 failed 4 times: org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "/x/worker.py", line 7, in main
    import numpy
ModuleNotFoundError: No module named 'numpy'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Caused by: java.lang.Exception: something else"""
    assert failure(words).startswith("the Python of Spark's workers has no numpy: ")
    assert failure("Refused: to read large logs, numba is needed: pip").startswith("the Python of Spark's workers has no numba")
    no_python = """Job aborted due to stage failure: lost task 0.0: java.io.IOException: no
\tat a.b.C.d(C.java:1)
Caused by: java.io.IOException: error=2, No such file or directory"""
    assert failure(no_python) == "Spark could not read them: IOException: error=2, No such file or directory"
    assert failure("cancelled\nby somebody") == "Spark could not read them: cancelled"


def test_which_masters_are_on_this_machine() -> None:
    assert all(map(is_local, ("local", "local[2]", "local[*]", "local[2,3]")))
    assert not any(map(is_local, ("spark://h:7077", "yarn", "local-cluster[2,1,512]", "k8s://h")))
