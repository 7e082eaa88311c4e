"""What the offset guard costs a job that reads from Kafka as fast as it can.

One job, so that it is the same Java with the same compiled code throughout: its guard is stopped (SIGSTOP) and continued by
turns of three seconds. That is how often it looks here, ten times as often as it does by default: many short turns, because the
machine's own speed changes more in half a minute than what is measured. Rows per second are counted between commits, by the
times of the files. What the guard itself computes is counted as well, by the kernel: that part has no noise.
"""

import itertools
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from bench.spark import PATIENCE_S, Cluster, computed_s, figure
from tests.harness.cluster.process_witness import children_of, command_of
from tests.harness.kafka.brokers import kraft_brokers
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.topic import Topic
from tests.harness.waiting import eventually

WINDOW_S = 3.0
ROUNDS = 40
PARTITIONS = 12
RECORDS = 18_000_000
PER_BATCH = 12_000
WARM_UP_BATCHES = 40
SCRIPT = "kafka_busy.py"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, kraft_brokers(Path(directory) / "kraft") as brokers:
        root = Path(directory)
        topic = Topic(brokers)
        topic.create(*([1 + number % 3] for number in range(PARTITIONS)))
        _fill(topic)
        with Cluster(root / "cluster", archives="off").up() as cluster:
            arguments = (topic.bootstrap, topic.name, str(PER_BATCH), str(root / "job"))
            jars = f"spark.jars={','.join(map(str, connector_jars()))}"
            conf = ("--conf", jars, "--conf", f"holdfast.kafka.check={WINDOW_S:g}s")
            with cluster.job(SCRIPT, *arguments, name="busy", conf=conf):
                sentry = _sentry(cluster)
                began_s = computed_s(sentry)
                guarded, alone = _measured(root / "job" / "checkpoint" / "commits", sentry)
                _tell(guarded, alone, computed_s(sentry) - began_s)


def _fill(topic: Topic) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(topic.name, b"%012d" % number, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(PATIENCE_S) == 0


def _sentry(cluster: Cluster) -> int:
    """The pid of the guard beside the only driver."""

    def found() -> int | None:
        driver = cluster.shown("busy")["driver_pid"]
        own = children_of(driver) if driver is not None else []
        return next((pid for pid in own if "holdfast.kafka.monitor" in command_of(pid)), None)

    return eventually(found, PATIENCE_S, "the guard runs")


def _measured(commits: Path, sentry: int) -> tuple[list[float], list[float]]:
    eventually((commits / str(WARM_UP_BATCHES)).exists, PATIENCE_S, "the job has warmed up")
    guarded, alone = [], []
    for _ in range(ROUNDS):
        guarded.append(_rows_per_s(commits))
        os.kill(sentry, signal.SIGSTOP)
        try:
            alone.append(_rows_per_s(commits))
        finally:
            os.kill(sentry, signal.SIGCONT)
    return guarded, alone


def _rows_per_s(commits: Path) -> float:
    began = time.time()
    time.sleep(WINDOW_S)
    times = sorted(when for file in commits.iterdir() if file.name.isdigit() and (when := _when(file)) > began)
    return (len(times) - 1) * PER_BATCH / (times[-1] - times[0])


def _when(file: Path) -> float:
    """When it was written: long ago, if Spark has removed it meanwhile, which keeps the last hundred."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _tell(guarded: list[float], alone: list[float], computed_s: float) -> None:
    print(f"  guarded          {figure(guarded, ',.0f')} rows per second, median of {ROUNDS} windows of {WINDOW_S:g} s")
    print(f"  its guard stopped {figure(alone, ',.0f')}")
    # Each against the mean of its neighbours, before and after: what changes slowly on the machine falls out.
    around = [(before + after) / 2 for before, after in itertools.pairwise(guarded)]
    ratios = [ours / theirs for ours, theirs in zip(around, alone, strict=False)]
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    print(
        f"  guarded, it runs at {statistics.fmean(ratios):.3f} of what it does alone, give or take {error:.3f} (target: 0.98)"
    )
    share = computed_s / (ROUNDS * WINDOW_S) / (os.cpu_count() or 1)
    print(f"  the guard itself computes {computed_s / ROUNDS * 1000:.0f} ms per turn, {share:.2%} of the machine")


if __name__ == "__main__":
    main()
