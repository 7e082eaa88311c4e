"""Kafka-to-Kafka example: a repeated batch is in the topic twice, and is read once."""

import contextlib
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from bench.spark import environment, spark_submit
from tests.harness.cluster.jobs import FIRST_BATCH_S, SPARK_CONF, poll_until
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.topic import Topic

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka"


@contextlib.contextmanager
def run_script(script: str, directory: Path, *arguments: str) -> Iterator[None]:
    """Run a script with spark-submit, and kill it at the end."""
    conf = {
        **SPARK_CONF,
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.sql.streaming.checkpointLocation": str(directory),
    }
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = [spark_submit(), *settings, str(EXAMPLES / script), *arguments]
    with (directory.parent / f"{script}.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log, start_new_session=True)
    try:
        yield
        assert process.poll() is None, (directory.parent / f"{script}.log").read_text()[-3000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def drop_newest_commit(checkpoint: Path) -> None:
    """Delete the newest commit, as if the driver was killed between a batch and its commit."""
    (commits,) = checkpoint.glob("**/commits")
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for name in (str(newest), f".{newest}.crc"):
        (commits / name).unlink(missing_ok=True)


def count_commits(checkpoint: Path) -> int:
    return sum(1 for path in checkpoint.glob("**/commits/*") if path.name.isdigit())


def read_output(output: Path) -> Counter[str]:
    files = output.glob("batch=*/*.parquet")
    return Counter(
        value for file in files for value in pyarrow.parquet.read_table(file, columns=["value"])["value"].to_pylist()
    )


def test_record_that_is_written_twice_is_read_once(kraft: Brokers, tmp_path: Path) -> None:
    orders, clean = Topic(kraft), Topic(kraft)
    orders.create([1, 2], [2, 3])
    clean.create([2, 3], [3, 1])
    checkpoint, reading, output = tmp_path / "writing", tmp_path / "reading", tmp_path / "orders"
    checkpoint.mkdir()
    reading.mkdir()
    arguments = ("--servers", orders.bootstrap, "--from", orders.name, "--to", clean.name)

    def written_records() -> int:
        return sum(len(clean.records(number)) for number in (0, 1))

    orders.write(30, 0)
    orders.write(30, 1)
    with run_script("orders_to_kafka.py", checkpoint, *arguments):
        poll_until(
            lambda: written_records() >= 60 and count_commits(checkpoint) > 0,
            FIRST_BATCH_S,
            "60 records are written",
            interval_s=1,
        )
    drop_newest_commit(checkpoint)
    orders.write(5, 0)
    with run_script("orders_to_kafka.py", checkpoint, *arguments):
        poll_until(
            lambda: written_records() >= 65 + 1 and count_commits(checkpoint) > 1,
            FIRST_BATCH_S,
            "the batch is written again",
            interval_s=1,
        )
    assert written_records() > 65, "some records are repeated"
    reader_arguments = ("--servers", clean.bootstrap, "--topic", clean.name, "--output", str(output))
    with run_script("read_once.py", reading, *reader_arguments):
        poll_until(lambda: sum(read_output(output).values()) >= 65, FIRST_BATCH_S, "all are read", interval_s=1)
        poll_until(lambda: count_commits(reading) > 0, FIRST_BATCH_S, "and committed", interval_s=1)
    assert read_output(output) == Counter(str(number) for number in range(65)), "each once"
