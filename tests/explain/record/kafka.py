"""Two Kafka brokers on ZooKeeper. One is paused until its session is gone, or a consumer until its place is."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.zk.embedded import Ensemble, tethered
from tests.explain.record.zookeeper import USED_S, Situation, logs_of, three_servers
from tests.harness.kafka import broker_files
from tests.harness.kafka.broker_process import LOGGING, java
from tests.harness.kafka.brokers import Brokers, zookeeper_brokers
from tests.harness.kafka.jars import ZOOKEEPER_MODE, cached
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import eventually

EVERY_S = 1.0
_TOOLS = (f"org.apache.kafka:kafka-tools:{ZOOKEEPER_MODE}", "org.slf4j:slf4j-reload4j:1.7.36")


@contextlib.contextmanager
def brokers_on(ensemble: Ensemble, directory: Path) -> Iterator[Brokers]:
    """Ended in order, so that their sessions are closed and do not run out."""
    with zookeeper_brokers(directory / "kafka", ensemble.connect) as brokers:
        yield brokers
        for broker in brokers.brokers:
            broker.stop()


def healthy(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, brokers_on(ensemble, directory) as brokers:
        _topic(brokers, used_s=USED_S)
        return _logs(ensemble, brokers)


def session_lost(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, brokers_on(ensemble, directory) as brokers:
        topic = _topic(brokers, used_s=5)
        brokers[1].pause()
        eventually(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
        topic.write(50)
        brokers[1].resume()
        eventually(lambda: b"has expired" in brokers[1].log.read_bytes(), SETTLE_S, "broker 1 hears of it")
        eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "broker 1 follows")
        topic.write(50)
        return _logs(ensemble, brokers)


def place_lost(directory: Path) -> Mapping[str, Path]:
    """A consumer is paused, and meanwhile the records that it had yet to read are deleted."""
    with three_servers(directory) as ensemble, brokers_on(ensemble, directory) as brokers:
        topic = _topic(brokers, used_s=5)
        with _consumer(directory / "consumer", topic) as (consumer, log):
            eventually(lambda: b"Resetting offset for partition" in log.read_bytes(), SETTLE_S, "it begins to read")
            topic.write(50)
            os.kill(consumer.pid, signal.SIGSTOP)
            topic.write(500)
            topic.delete_records(before=400)
            os.kill(consumer.pid, signal.SIGCONT)
            eventually(lambda: b"is out of range" in log.read_bytes(), SETTLE_S, "it has lost its place")
            topic.write(50)
        return {**_logs(ensemble, brokers), "consumer": log}


@contextlib.contextmanager
def _consumer(directory: Path, topic: Topic) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Kafka's own, in Java, which goes to the latest record where it is not told otherwise."""
    directory.mkdir()
    (directory / LOGGING).write_text(broker_files.reload4j())
    arguments = ("--bootstrap-server", topic.bootstrap, "--topic", topic.name, "--group", "readers")
    jars = cached(f"kafka-tools-{ZOOKEEPER_MODE}", _TOOLS, with_their_own=True)
    command = java(jars, "org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)
    process = subprocess.Popen(
        tethered(command, signal.SIGKILL), cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        log = directory / broker_files.LOG_NAME
        eventually(log.exists, SETTLE_S, "it logs")
        yield process, log
    finally:
        process.terminate()
        process.wait(SETTLE_S)


def _topic(brokers: Brokers, *, used_s: float) -> Topic:
    topic = Topic(brokers)
    topic.create([1, 2])
    eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "both are in sync")
    until = time.monotonic() + used_s
    while time.monotonic() < until:
        topic.write(10)
        time.sleep(EVERY_S)  # so often something is written
    return topic


def _logs(ensemble: Ensemble, brokers: Brokers) -> dict[str, Path]:
    return {**logs_of(ensemble), **{f"kafka-{broker.id}": broker.log for broker in brokers.brokers}}


SITUATIONS: dict[str, Situation] = {
    "kafka-healthy": healthy,
    "kafka-session-lost": session_lost,
    "kafka-place-lost": place_lost,
}
