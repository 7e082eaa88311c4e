"""Situations of two Kafka brokers on ZooKeeper: a broker is paused until its session expires, or a consumer until its offset
is deleted."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.zk.embedded import EmbeddedEnsemble, with_parent_death_signal
from tests.explain.record.zookeeper import USED_S, Situation, logs_of, three_servers
from tests.harness.kafka import broker_files
from tests.harness.kafka.broker_process import LOGGING_FILE, java_command
from tests.harness.kafka.brokers import Brokers, zookeeper_brokers
from tests.harness.kafka.jars import ZOOKEEPER_MODE, cached_jars
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import wait_until

EVERY_S = 1.0
_TOOLS = (f"org.apache.kafka:kafka-tools:{ZOOKEEPER_MODE}", "org.slf4j:slf4j-reload4j:1.7.36")


@contextlib.contextmanager
def brokers_on(ensemble: EmbeddedEnsemble, directory: Path) -> Iterator[Brokers]:
    """Run brokers, and stop them in order, so that their sessions are closed and do not expire."""
    with zookeeper_brokers(directory / "kafka", ensemble.connect_string) as brokers:
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
        wait_until(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
        topic.write(50)
        brokers[1].resume()
        wait_until(
            lambda: b"has expired" in brokers[1].log.read_bytes(), SETTLE_S, "broker 1 notices that its session has expired"
        )
        wait_until(lambda: topic.in_sync_replicas() == {1, 2}, SETTLE_S, "broker 1 follows")
        topic.write(50)
        return _logs(ensemble, brokers)


def place_lost(directory: Path) -> Mapping[str, Path]:
    """Pause a consumer and delete the records that it has not read yet."""
    with three_servers(directory) as ensemble, brokers_on(ensemble, directory) as brokers:
        topic = _topic(brokers, used_s=5)
        with _consumer(directory / "consumer", topic) as (consumer, log):
            wait_until(lambda: b"Resetting offset for partition" in log.read_bytes(), SETTLE_S, "the consumer starts to read")
            topic.write(50)
            os.kill(consumer.pid, signal.SIGSTOP)
            topic.write(500)
            topic.delete_records(before=400)
            os.kill(consumer.pid, signal.SIGCONT)
            wait_until(lambda: b"is out of range" in log.read_bytes(), SETTLE_S, "the consumer has lost its offset")
            topic.write(50)
        return {**_logs(ensemble, brokers), "consumer": log}


@contextlib.contextmanager
def _consumer(directory: Path, topic: Topic) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run Kafka's Java console consumer, which resets to the latest offset by default."""
    directory.mkdir()
    (directory / LOGGING_FILE).write_text(broker_files.reload4j_properties())
    arguments = ("--bootstrap-server", topic.bootstrap, "--topic", topic.name, "--group", "readers")
    jars = cached_jars(f"kafka-tools-{ZOOKEEPER_MODE}", _TOOLS, transitive=True)
    command = java_command(jars, "org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)
    process = subprocess.Popen(
        with_parent_death_signal(command, signal.SIGKILL), cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        log = directory / broker_files.LOG_NAME
        wait_until(log.exists, SETTLE_S, "the consumer logs")
        yield process, log
    finally:
        process.terminate()
        process.wait(SETTLE_S)


def _topic(brokers: Brokers, *, used_s: float) -> Topic:
    topic = Topic(brokers)
    topic.create([1, 2])
    wait_until(lambda: topic.in_sync_replicas() == {1, 2}, SETTLE_S, "both are in sync")
    until = time.monotonic() + used_s
    while time.monotonic() < until:
        topic.write(10)
        time.sleep(EVERY_S)
    return topic


def _logs(ensemble: EmbeddedEnsemble, brokers: Brokers) -> dict[str, Path]:
    return {**logs_of(ensemble), **{f"kafka-{broker.id}": broker.log for broker in brokers.brokers}}


SITUATIONS: dict[str, Situation] = {
    "kafka-healthy": healthy,
    "kafka-session-lost": session_lost,
    "kafka-place-lost": place_lost,
}
