"""Broker failures under a real job on a real cluster: incident 002 and similar cases."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.kafka_job import KafkaJob
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

OUTAGE_S = 120.0
EVENT_TIMEOUT_S = 120.0
"""Timeout for events: the leader reads a running job's report about once a minute."""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterJobs]:
    directory = tmp_path_factory.mktemp("kafka-jobs")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "1") as cluster,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(cluster.directory)) as jobs,
        ):
            yield jobs
    finally:
        kill_leftovers(directory)


def values(first: int, last: int) -> Counter[str]:
    return Counter(str(number) for number in range(first, last))


@pytest.mark.incident
def test_expired_zookeeper_session_of_a_broker_does_not_disturb_the_job(jobs: ClusterJobs, zookeeper_cluster: Brokers) -> None:
    """Incident 002."""
    topic = Topic(zookeeper_cluster)
    topic.create([1, 2], [2, 1])
    wait_until(lambda: topic.in_sync_replicas() == {1, 2}, SETTLE_S, "both are in sync")
    topic.write(100, 0)
    topic.write(100, 1)
    job = KafkaJob(jobs, topic, "incident-002")
    job.wait_for_records(200)
    job.wait_until_checked(100)
    zookeeper_cluster[1].pause()
    wait_until(lambda: topic.leader(0) == 2, SETTLE_S, "broker 2 leads")
    topic.write(50, 0)
    topic.write(50, 1)
    job.wait_for_records(300)
    zookeeper_cluster[1].resume()
    wait_until(
        lambda: b"has expired" in zookeeper_cluster[1].log.read_bytes(), SETTLE_S, "broker 1 learns that its session expired"
    )
    wait_until(lambda: topic.in_sync_replicas() == {1, 2}, SETTLE_S, "broker 1 follows")
    topic.write(50, 0)
    topic.write(50, 1)
    job.wait_for_records(400)
    poll_until(
        lambda: any("broker 2 is the new leader" in reason for reason in job.event_reasons()),
        EVENT_TIMEOUT_S,
        "an event names the new leader",
    )
    job.stop()
    assert job.output_values() == values(0, 400), "no record is repeated or skipped"
    assert job.view["restarts"] == 0
    job.cancel()


@pytest.mark.parametrize("regrown", [0, 70], ids=["truncated", "regrown"])
def test_unclean_election_parks_the_job_with_exact_counts(
    jobs: ClusterJobs, kraft: Brokers, regrown: int, tmp_path: Path
) -> None:
    topic = Topic(kraft, **{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    topic.create([1, 2])
    wait_until(lambda: topic.in_sync_replicas() == {1, 2}, SETTLE_S, "both are in sync")
    topic.write(60)
    job = KafkaJob(jobs, topic, f"unclean-{regrown}")
    job.wait_for_records(60)
    kraft[2].kill()
    wait_until(lambda: topic.in_sync_replicas() == {1}, SETTLE_S, "broker 2 is out of sync")
    topic.write(40)
    job.wait_for_records(100)
    job.wait_until_checked(100)
    if regrown:
        job.stop()
    kraft[1].kill()
    kraft.restart(2)
    wait_until(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
    if regrown:
        topic.write(regrown)
        jobs.run_ok("resume", job.id)
    parked = job.wait_until_parked()
    assert "truncated" in parked["reason"] and "show" in parked["reason"], parked
    (finding,) = job.findings()
    assert finding["kind"] == ("truncated and regrown" if regrown else "truncated")
    assert (finding["saved"], finding["earliest"], finding["latest"]) == (100, 0, 60 + regrown)
    assert (finding["vanished"], finding["mends"]) == (40, 60)
    assert parked["restarts"] <= 1
    choice = tmp_path / "offsets.json"
    choice.write_text(json.dumps({topic.name: {"0": finding["mends"]}}))
    topic.write(5)
    output = jobs.run_ok("resume", job.id, "--offsets", str(choice))
    assert f"{topic.name}-0 (100 → 60)" in output
    job.wait_for_records(100 + regrown + 5)
    poll_until(
        lambda: any("chose 'offsets.json'" in reason for reason in job.event_reasons()),
        EVENT_TIMEOUT_S,
        "an event names the choice",
    )
    job.stop()
    assert job.output_values() == values(0, 100 + regrown + 5), "every record exactly once"
    job.cancel()


def test_deleted_records_park_the_job_and_resuming_from_earliest_repeats_nothing(jobs: ClusterJobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2], [2, 3])
    topic.write(50, 0)
    topic.write(30, 1)
    job = KafkaJob(jobs, topic, "retention")
    job.wait_for_records(80)
    job.stop()
    topic.write(40, 0)
    topic.write(10, 1)
    topic.delete_records(73, 0)
    jobs.run_ok("resume", job.id)
    parked = job.wait_until_parked()
    assert "23 records deleted before the job read them" in parked["reason"]
    (finding,) = job.findings()
    assert (finding["partition"], finding["saved"], finding["earliest"], finding["latest"]) == (0, 50, 73, 90)
    assert (finding["lost"], finding["from_earliest"]) == (23, {"skipped": 0, "repeated": 0})
    attempts = parked["attempt"]
    jobs.run_ok("resume", job.id)
    poll_until(
        lambda: job.view["attempt"] > attempts and job.view["phase"] == "PARKED",
        120,
        "the job is parked again without a choice",
    )
    output = jobs.run_ok("resume", job.id, "--offsets", "earliest")
    assert f"{topic.name}-0 (50 → 73)" in output and f"{topic.name}-1" not in output, "only the affected partition"
    job.wait_for_records(80 + 17 + 10)
    job.stop()
    lines = job.output_lines()
    assert set(lines.values()) == {1}
    read = {number: sorted(int(line.split()[1]) for line in lines if line.startswith(f"{number} ")) for number in (0, 1)}
    assert read == {0: [*range(50), *range(73, 90)], 1: [*range(40)]}
    assert [each["job"] for each in json.loads(jobs.run_ok("savepoint", "ls", job.id, "--json"))] == [job.id], (
        "the savepoint before the change"
    )
    job.cancel()


def test_recreated_topic_that_grew_past_the_saved_offset_parks_the_job(jobs: ClusterJobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(50)
    job = KafkaJob(jobs, topic, "recreated")
    job.wait_for_records(50)
    job.wait_until_checked(50)
    job.stop()
    topic.delete()
    topic.create([1, 2])
    topic.write(80)
    jobs.run_ok("resume", job.id)
    parked = job.wait_until_parked()
    assert "re-created" in parked["reason"]
    (finding,) = job.findings()
    assert (finding["kind"], finding["saved"], finding["latest"]) == ("topic re-created", 50, 80)
    assert finding["keep"] == {"skipped": 50, "repeated": 0}
    jobs.run_ok("resume", job.id, "--offsets", "earliest")
    job.wait_for_records(130)
    job.stop()
    assert job.output_values() == values(0, 130)
    job.cancel()


def test_added_partition_is_reported_and_read_from_its_first_record(jobs: ClusterJobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(50)
    job = KafkaJob(jobs, topic, "added")
    job.wait_for_records(50)
    job.wait_until_checked(50)
    topic.add_partitions(2)
    poll_until(
        lambda: any("new partition" in reason for reason in job.event_reasons()),
        EVENT_TIMEOUT_S,
        "an event names the new partition",
    )
    topic.write(20, 1)
    job.wait_for_records(70)
    poll_until(
        lambda: set(job.view["progress"]["lag"][0][topic.name]) == {"0", "1"}, 60, "the lag of both partitions is reported"
    )
    job.stop()
    assert job.output_values() == values(0, 70)
    assert job.view["restarts"] == 0
    job.cancel()


def test_unreachable_brokers_for_two_minutes_cost_no_record_and_no_failure(jobs: ClusterJobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2], [2, 3])
    topic.write(50, 0)
    topic.write(50, 1)
    job = KafkaJob(jobs, topic, "away")
    job.wait_for_records(100)
    job.wait_until_checked(50)
    for broker in kraft.brokers:
        broker.kill()
    outage_start = time.monotonic()
    poll_until(lambda: "no broker describes this topic" in job.view["reason"], 60, "the reason names the outage")
    poll_until(lambda: time.monotonic() - outage_start > OUTAGE_S, OUTAGE_S + 10, "two minutes have passed", interval_s=1)
    assert job.view["phase"] in ("RUNNING", "STARTING", "PENDING"), job.view
    kraft.restore()
    topic.write(10, 0)
    topic.write(10, 1)
    job.wait_for_records(120)
    poll_until(lambda: "healthy again" in job.view["reason"], 120, "the reason says that Kafka is healthy again")
    job.stop()
    assert job.output_values() == values(0, 120)
    assert "failures in a row" not in jobs.run_ok("show", job.id)
    job.cancel()


def test_options_that_change_offsets_are_refused_unless_the_check_is_disabled(jobs: ClusterJobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(10)
    refused = KafkaJob(jobs, topic, "lossy", "--lossy")
    failed = jobs.wait_for_phase(refused.id, "FAILED", timeout_s=120)
    assert "failOnDataLoss=false" in failed["reason"] and "holdfast.guards.off=kafka-offsets" in failed["reason"]
    allowed = KafkaJob(jobs, topic, "lossy-by-choice", "--lossy", holdfast_guards_off="kafka-offsets")
    allowed.wait_for_records(10)
    allowed.cancel()
