"""Cost of the offset check for a job that reads from Kafka as fast as it can.

One job runs throughout, so the compiled code of its JVM is the same. Its Kafka monitor is stopped (SIGSTOP) and continued in
turns of three seconds. The monitor checks once per turn, ten times as often as by default. The turns are short because the
speed of the machine varies more within half a minute than the expected difference. Rows per second are counted between commits,
by the modification times of the files. The CPU time of the monitor comes from the kernel and has no noise.
"""

import itertools
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from bench.spark import TIMEOUT_S, BenchCluster, cpu_seconds, format_median
from tests.harness.cluster.process_observer import child_pids, read_command
from tests.harness.kafka.brokers import kraft_brokers
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.topic import Topic
from tests.harness.waiting import wait_until

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
        with BenchCluster(root / "cluster", archives="off").running() as cluster:
            arguments = (topic.bootstrap, topic.name, str(PER_BATCH), str(root / "job"))
            jars = f"spark.jars={','.join(map(str, connector_jars()))}"
            conf = ("--conf", jars, "--conf", f"holdfast.kafka.check={WINDOW_S:g}s")
            with cluster.job(SCRIPT, *arguments, name="busy", conf=conf):
                monitor = _monitor_pid(cluster)
                before_s = cpu_seconds(monitor)
                checked, unchecked = _measure(root / "job" / "checkpoint" / "commits", monitor)
                _print_results(checked, unchecked, cpu_seconds(monitor) - before_s)


def _fill(topic: Topic) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(topic.name, b"%012d" % number, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0


def _monitor_pid(cluster: BenchCluster) -> int:
    """Return the pid of the Kafka monitor of the only driver."""

    def find() -> int | None:
        driver = cluster.show("busy")["driver_pid"]
        children = child_pids(driver) if driver is not None else []
        return next((pid for pid in children if "holdfast.kafka.monitor" in read_command(pid)), None)

    return wait_until(find, TIMEOUT_S, "the Kafka monitor runs")


def _measure(commits: Path, monitor: int) -> tuple[list[float], list[float]]:
    wait_until((commits / str(WARM_UP_BATCHES)).exists, TIMEOUT_S, "the job is warmed up")
    checked, unchecked = [], []
    for _ in range(ROUNDS):
        checked.append(_rows_per_s(commits))
        os.kill(monitor, signal.SIGSTOP)
        try:
            unchecked.append(_rows_per_s(commits))
        finally:
            os.kill(monitor, signal.SIGCONT)
    return checked, unchecked


def _rows_per_s(commits: Path) -> float:
    started = time.time()
    time.sleep(WINDOW_S)
    times = sorted(when for file in commits.iterdir() if file.name.isdigit() and (when := _modified_at(file)) > started)
    return (len(times) - 1) * PER_BATCH / (times[-1] - times[0])


def _modified_at(file: Path) -> float:
    """Return the modification time, or 0 if Spark has removed the file: it keeps the last hundred."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _print_results(checked: list[float], unchecked: list[float], cpu_s: float) -> None:
    print(f"  monitor running  {format_median(checked, ',.0f')} rows per second, median of {ROUNDS} windows of {WINDOW_S:g} s")
    print(f"  monitor stopped  {format_median(unchecked, ',.0f')}")
    # Compare each turn with the mean of its two neighbours: slow changes of the machine cancel out.
    around = [(before + after) / 2 for before, after in itertools.pairwise(checked)]
    ratios = [mean / rate for mean, rate in zip(around, unchecked, strict=False)]
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    print(
        f"  with the monitor, the job runs at {statistics.fmean(ratios):.3f} ± {error:.3f} of its rate without (target: 0.98)"
    )
    share = cpu_s / (ROUNDS * WINDOW_S) / (os.cpu_count() or 1)
    print(f"  the monitor uses {cpu_s / ROUNDS * 1000:.0f} ms of CPU per turn, {share:.2%} of the CPUs")


if __name__ == "__main__":
    main()
