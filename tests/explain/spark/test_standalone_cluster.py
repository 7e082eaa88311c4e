"""`explain` on a standalone Spark cluster without Holdfast on its workers: the answer is the same to the byte."""

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
from holdfast.zk.embedded.ports import LOOPBACK
from tests.harness.cluster.spark_standalone import StandaloneCluster
from tests.harness.log_situations import RESET, at, healthy_log, stall_line, zookeeper_line

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]

CONF = {
    "spark.driver.host": LOOPBACK,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # wait for both executors
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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with all installed packages except editable ones, such as Holdfast itself."""
    script = tmp_path_factory.mktemp("python") / "python"
    packages = sysconfig.get_path("purelib")
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{BASE}" -S "$@"\n')
    script.chmod(0o755)
    return script


def explain(
    *arguments: str | Path, master: str, python: Path | None = None, stdin: bytes = b"", open_file: int | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command. `open_file` is a descriptor that the process inherits."""
    command = [sys.executable, "-P", "-m", "holdfast.cli.main", "explain", *map(str, arguments), "--master", master]
    if not master.startswith("local"):
        command += [part for key, value in CONF.items() for part in ("--conf", f"{key}={value}")]
    environment = {**os.environ, **({"PYSPARK_PYTHON": str(python)} if python is not None else {})}
    files = [open_file] if open_file is not None else []
    return subprocess.run(command, input=stdin, capture_output=True, timeout=150, check=False, env=environment, pass_fds=files)


def answer(*arguments: str | Path, master: str, python: Path | None = None, stdin: bytes = b"") -> bytes:
    done = explain(*arguments, "--json", "-", master=master, python=python, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b"", "no output of Java"
    return done.stdout


def test_workers_of_these_tests_have_the_dependencies_but_no_holdfast(python: Path) -> None:
    def imports(name: str) -> bool:
        return subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0

    assert all(map(imports, ("numpy", "pyarrow", "numba", "pyspark")))
    assert not imports("holdfast")


def test_cluster_gives_the_same_answer_and_all_workers_read(tmp_path: Path, cluster: StandaloneCluster, python: Path) -> None:
    """Inputs: a file of several ranges, a compressed file, a user library, a report on standard input."""
    first = at("13:12:39.083")
    large = tmp_path / "zk1.log"
    with large.open("w") as file:
        routine = zookeeper_line(at("09:00:00"), 1, "main:PurgeManager@139", "Purge task started.") * 1000
        routine += zookeeper_line(at("09:00:00"), 1, "main:A@1", "it broke", "ERROR") + "java.io.IOException: no space\n"
        for _ in range(2 * RANGE_BYTES // len(routine) + 1):
            file.write(routine)
        file.write(stall_line(1, first, 30334))
    (tmp_path / "zk2.log.gz").write_bytes(
        gzip.compress((healthy_log(2, at("13:00:00")) + stall_line(2, first, 30456)).encode())
    )
    (tmp_path / "kettle.log").write_text("2026-03-04 13:00:01,001 INFO  kitchen.Kettle - pot7 is boiling\n")
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    arguments = (large, tmp_path / "zk2.log.gz", tmp_path / "kettle.log", "-", "--library", own)
    try:
        expected = answer(*arguments, master="local[2]", stdin=RESET.encode())
        found = answer(*arguments, master=cluster.url, python=python, stdin=RESET.encode())
    finally:
        large.unlink()
    assert found == expected
    document = json.loads(found)
    assert {one["signature"] for one in document["diagnoses"]} >= {"zk-simultaneous-stall", "kafka-offset-reset"}
    assert document["counts"]["bytes"] > 2 * RANGE_BYTES
    errors = document["errors"]
    assert errors["counts"]["error"] == errors["counts"]["exception"] == errors["most_frequent"][0]["count"] > 700
    assert "kettle.log" in str(document["components"]), "an event of the user library"
    for worker in cluster.workers:
        executed = "".join(log.read_text() for log in worker.log.parent.glob("work/*/*/stderr"))
        assert "Finished task" in executed, f"no task on {worker.log.parent.name}"


def error_message(done: "subprocess.CompletedProcess[bytes]") -> str:
    assert done.returncode == 1
    (message,) = done.stderr.decode().splitlines()
    return message


def test_file_that_workers_cannot_read_is_named_in_one_sentence(
    tmp_path: Path, cluster: StandaloneCluster, python: Path
) -> None:
    """The file is deleted: only the process that has it open can read it."""
    open_file = tmp_path / "x.log"
    open_file.write_text(stall_line(1, at("13:00:00"), 4000))
    with open_file.open("rb") as file:
        open_file.unlink()
        path = f"/dev/fd/{file.fileno()}"
        message = error_message(explain(path, master=cluster.url, python=python, open_file=file.fileno()))
    assert message.startswith(f"holdfast: Spark's workers cannot read {path}: put it on storage")


def test_missing_module_on_workers_is_reported_in_one_sentence(tmp_path: Path, cluster: StandaloneCluster) -> None:
    (tmp_path / "x.log").write_text(stall_line(1, at("13:00:00"), 4000))
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{BASE}" -S "$@"\n')
    bare.chmod(0o755)
    message = error_message(explain(tmp_path / "x.log", master=cluster.url, python=bare))
    assert message.startswith("holdfast: the Python of Spark's workers has no ")
