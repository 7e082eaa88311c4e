"""On a standalone Spark cluster, whose workers have never heard of Holdfast, the answer is the same to the byte."""

import gzip
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.explain.scan.ranges import RANGE_BYTES
from tests.explain.situations import RESET, at, quiet, stall, zookeeper
from tests.harness.cluster.spark_standalone import LOOPBACK, Standalone

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]

CONF = {
    "spark.driver.host": LOOPBACK,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # nobody begins before the other is there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s",
}
BASE = str(getattr(sys, "_base_executable", sys.executable))
OWN = """
[[event]]
kind = "tea"
system = "kettle"
literals = ["is boiling"]
match = '(?P<pot>\\w+) is boiling'
says = "{pot} boils"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with all that is installed here, except what is installed by a link to where it is developed."""
    script = tmp_path_factory.mktemp("python") / "python"
    packages = sysconfig.get_path("purelib")
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{BASE}" -S "$@"\n')
    script.chmod(0o755)
    return script


def explain(
    *arguments: str | Path, master: str, python: Path | None = None, given: bytes = b"", held: int | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """`held`: a file that is open, and stays so."""
    command = [sys.executable, "-P", "-m", "holdfast.cli.main", "explain", *map(str, arguments), "--master", master]
    if not master.startswith("local"):
        command += [part for key, value in CONF.items() for part in ("--conf", f"{key}={value}")]
    environment = {**os.environ, **({"PYSPARK_PYTHON": str(python)} if python is not None else {})}
    files = [held] if held is not None else []
    return subprocess.run(command, input=given, capture_output=True, timeout=150, check=False, env=environment, pass_fds=files)


def answer(*arguments: str | Path, master: str, python: Path | None = None, given: bytes = b"") -> bytes:
    done = explain(*arguments, "--json", "-", master=master, python=python, given=given)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b"", "nothing of what Java says"
    return done.stdout


def test_the_workers_of_these_tests_have_what_is_needed_and_no_holdfast(python: Path) -> None:
    def imports(name: str) -> bool:
        return subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0

    assert all(map(imports, ("numpy", "pyarrow", "numba", "pyspark")))
    assert not imports("holdfast")


def test_a_cluster_gives_the_same_answer_to_the_byte_and_all_of_its_workers_read(
    tmp_path: Path, cluster: Standalone, python: Path
) -> None:
    """Several files, one of them of several ranges, an archive, a library of the user's own, a report on standard input."""
    first = at("13:12:39.083")
    large = tmp_path / "zk1.log"
    with large.open("w") as file:
        routine = zookeeper(at("09:00:00"), 1, "main:PurgeManager@139", "Purge task started.") * 1000
        for _ in range(2 * RANGE_BYTES // len(routine) + 1):
            file.write(routine)
        file.write(stall(1, first, 30334))
    (tmp_path / "zk2.log.gz").write_bytes(gzip.compress((quiet(2, at("13:00:00")) + stall(2, first, 30456)).encode()))
    (tmp_path / "kettle.log").write_text("2026-03-04 13:00:01,001 INFO  kitchen.Kettle - pot7 is boiling\n")
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    arguments = (large, tmp_path / "zk2.log.gz", tmp_path / "kettle.log", "-", "--library", own)
    try:
        expected = answer(*arguments, master="local[2]", given=RESET.encode())
        found = answer(*arguments, master=cluster.url, python=python, given=RESET.encode())
    finally:
        large.unlink()
    assert found == expected
    told = json.loads(found)
    assert {one["signature"] for one in told["diagnoses"]} >= {"zk-simultaneous-stall", "kafka-offset-reset"}
    assert told["counts"]["bytes"] > 2 * RANGE_BYTES
    assert "kettle.log" in str(told["components"]), "what the user's own library knows"
    for worker in cluster.workers:
        executed = "".join(log.read_text() for log in worker.log.parent.glob("work/*/*/stderr"))
        assert "Finished task" in executed, f"no task on {worker.log.parent.name}"


def sentence(done: "subprocess.CompletedProcess[bytes]") -> str:
    assert done.returncode == 1
    (said,) = done.stderr.decode().splitlines()
    return said


def test_a_file_that_only_this_machine_has_is_named_in_one_sentence(tmp_path: Path, cluster: Standalone, python: Path) -> None:
    """Here it is one that only the process has which holds it open."""
    held = tmp_path / "x.log"
    held.write_text(stall(1, at("13:00:00"), 4000))
    with held.open("rb") as file:
        held.unlink()
        path = f"/dev/fd/{file.fileno()}"
        said = sentence(explain(path, master=cluster.url, python=python, held=file.fileno()))
    assert said.startswith(f"holdfast: {path} is not there for Spark's workers, which read files themselves: put it on storage")


def test_a_python_of_the_workers_that_lacks_something_is_told_in_one_sentence(tmp_path: Path, cluster: Standalone) -> None:
    (tmp_path / "x.log").write_text(stall(1, at("13:00:00"), 4000))
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{BASE}" -S "$@"\n')
    bare.chmod(0o755)
    said = sentence(explain(tmp_path / "x.log", master=cluster.url, python=bare))
    assert said.startswith("holdfast: the Python of Spark's workers has no ")
