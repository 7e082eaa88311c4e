"""Situations of a Spark query that reads from Kafka twice with one checkpoint: with and without deleted records in between."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from holdfast.zk.embedded.ports import LOOPBACK
from tests.explain.record.kafka import brokers_on
from tests.explain.record.zookeeper import Situation, logs_of, three_servers
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.topic import Topic

SCRIPT = Path(__file__).parents[2] / "harness" / "kafka" / "scripts" / "read.py"
SPARK_S = 300.0
CONF = {"spark.master": "local[1]", "spark.ui.enabled": "false"}


def healthy(directory: Path) -> Mapping[str, Path]:
    return _read_twice(directory, deleted=0)


def data_loss(directory: Path) -> Mapping[str, Path]:
    return _read_twice(directory, deleted=150)


def _read_twice(directory: Path, *, deleted: int) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, brokers_on(ensemble, directory) as brokers:
        topic = Topic(brokers)
        topic.create([1, 2])
        topic.write(100)
        log = directory / "driver.log"
        assert _read(topic, directory, log) == 0
        topic.write(100)
        if deleted:
            topic.delete_records(before=deleted)
        assert (_read(topic, directory, log) == 0) == (not deleted)
        return {**logs_of(ensemble), **_logs(brokers), "spark-driver": log}


def _read(topic: Topic, directory: Path, log: Path) -> int:
    conf = CONF | {"spark.jars": ",".join(str(jar) for jar in connector_jars())}
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    arguments = (topic.bootstrap, topic.name, str(directory / "checkpoint"), str(directory / "out"))
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
        "SPARK_LOCAL_IP": LOOPBACK,
    }
    with log.open("ab") as written:
        return subprocess.run(
            [sys.executable, str(SCRIPT), *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            timeout=SPARK_S,
            check=False,
        ).returncode


def _logs(brokers: Brokers) -> dict[str, Path]:
    return {f"kafka-{broker.id}": broker.log for broker in brokers.brokers}


SITUATIONS: dict[str, Situation] = {"spark-kafka-healthy": healthy, "spark-kafka-data-loss": data_loss}
