"""Incident 002 and all that is like it: real brokers break under a real job, on a real cluster."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import started
from tests.harness.cluster.jobs import Jobs, until
from tests.harness.cluster.process_witness import sweep
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.guarded_job import Guarded
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

AWAY_S = 120.0
TOLD_S = 120.0
"""A leader looks at a job that lives about once a minute."""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    directory = tmp_path_factory.mktemp("guarded")
    try:
        with (
            started(directory / "c", "--nodes", "1") as up,
            Jobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        sweep(directory)


def values(first: int, last: int) -> Counter[str]:
    return Counter(str(number) for number in range(first, last))


def test_a_broker_that_loses_its_zookeeper_session_costs_the_job_nothing(jobs: Jobs, on_zookeeper: Brokers) -> None:
    """Incident 002."""
    topic = Topic(on_zookeeper)
    topic.create([1, 2], [2, 1])
    eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "both are in sync")
    topic.write(100, 0)
    topic.write(100, 1)
    job = Guarded(jobs, topic, "incident-002")
    job.until_written(200)
    job.until_looked_at(100)
    on_zookeeper[1].pause()
    eventually(lambda: topic.leader(0) == 2, SETTLE_S, "broker 2 leads")
    topic.write(50, 0)
    topic.write(50, 1)
    job.until_written(300)
    on_zookeeper[1].resume()
    eventually(lambda: b"has expired" in on_zookeeper[1].log.read_bytes(), SETTLE_S, "broker 1 hears that its session expired")
    eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "broker 1 follows")
    topic.write(50, 0)
    topic.write(50, 1)
    job.until_written(400)
    until(
        lambda: any("broker 2 leads it now" in reason for reason in job.reasons()), TOLD_S, "the events tell of the new leader"
    )
    job.stop()
    assert job.values() == values(0, 400), "neither re-read nor skipped"
    assert job.view["restarts"] == 0
    job.end()


@pytest.mark.parametrize("regrown", [0, 70], ids=["truncated", "regrown"])
def test_an_unclean_election_parks_the_job_and_the_table_is_right_to_the_record(
    jobs: Jobs, kraft: Brokers, regrown: int, tmp_path: Path
) -> None:
    topic = Topic(kraft, **{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    topic.create([1, 2])
    eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "both are in sync")
    topic.write(60)
    job = Guarded(jobs, topic, f"unclean-{regrown}")
    job.until_written(60)
    kraft[2].kill()
    eventually(lambda: topic.in_sync() == {1}, SETTLE_S, "broker 2 is out of sync")
    topic.write(40)
    job.until_written(100)
    job.until_looked_at(100)
    if regrown:
        job.stop()
    kraft[1].kill()
    kraft.restart(2)
    eventually(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
    if regrown:
        topic.write(regrown)
        jobs.ok("resume", job.id)
    parked = job.parked()
    assert "truncated" in parked["reason"] and "show" in parked["reason"], parked
    (finding,) = job.findings()
    assert finding["kind"] == ("truncated and regrown" if regrown else "truncated")
    assert (finding["saved"], finding["earliest"], finding["latest"]) == (100, 0, 60 + regrown)
    assert (finding["vanished"], finding["mends"]) == (40, 60)
    assert parked["restarts"] <= 1
    choice = tmp_path / "offsets.json"
    choice.write_text(json.dumps({topic.name: {"0": finding["mends"]}}))
    topic.write(5)
    told = jobs.ok("resume", job.id, "--offsets", str(choice))
    assert f"{topic.name}-0 (100 → 60)" in told
    job.until_written(100 + regrown + 5)
    until(lambda: any("chose 'offsets.json'" in reason for reason in job.reasons()), TOLD_S, "an event of who chose what")
    job.stop()
    assert job.values() == values(0, 100 + regrown + 5), "all that was ever written, each once"
    job.end()


def test_records_deleted_below_the_saved_offset_park_the_job_and_going_on_from_the_earliest_repeats_nothing(
    jobs: Jobs, kraft: Brokers
) -> None:
    topic = Topic(kraft)
    topic.create([1, 2], [2, 3])
    topic.write(50, 0)
    topic.write(30, 1)
    job = Guarded(jobs, topic, "retention")
    job.until_written(80)
    job.stop()
    topic.write(40, 0)
    topic.write(10, 1)
    topic.delete_records(73, 0)
    jobs.ok("resume", job.id)
    parked = job.parked()
    assert "23 records deleted before the job read them" in parked["reason"]
    (finding,) = job.findings()
    assert (finding["partition"], finding["saved"], finding["earliest"], finding["latest"]) == (0, 50, 73, 90)
    assert (finding["lost"], finding["from_earliest"]) == (23, {"skipped": 0, "repeated": 0})
    attempts = parked["attempt"]
    jobs.ok("resume", job.id)
    until(
        lambda: job.view["attempt"] > attempts and job.view["phase"] == "PARKED", 120, "it is parked again: nothing was chosen"
    )
    told = jobs.ok("resume", job.id, "--offsets", "earliest")
    assert f"{topic.name}-0 (50 → 73)" in told and f"{topic.name}-1" not in told, "exactly the named partitions"
    job.until_written(80 + 17 + 10)
    job.stop()
    lines = job.lines()
    assert set(lines.values()) == {1}
    read = {number: sorted(int(line.split()[1]) for line in lines if line.startswith(f"{number} ")) for number in (0, 1)}
    assert read == {0: [*range(50), *range(73, 90)], 1: [*range(40)]}
    assert [each["job"] for each in json.loads(jobs.ok("savepoint", "ls", job.id, "--json"))] == [job.id], "the one before"
    job.end()


def test_a_topic_created_again_and_regrown_beyond_the_saved_offset_parks_the_job(jobs: Jobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(50)
    job = Guarded(jobs, topic, "recreated")
    job.until_written(50)
    job.until_looked_at(50)
    job.stop()
    topic.delete()
    topic.create([1, 2])
    topic.write(80)
    jobs.ok("resume", job.id)
    parked = job.parked()
    assert "created again" in parked["reason"]
    (finding,) = job.findings()
    assert (finding["kind"], finding["saved"], finding["latest"]) == ("topic re-created", 50, 80)
    assert finding["keep"] == {"skipped": 50, "repeated": 0}
    jobs.ok("resume", job.id, "--offsets", "earliest")
    job.until_written(130)
    job.stop()
    assert job.values() == values(0, 130)
    job.end()


def test_a_partition_that_is_added_is_read_from_its_first_record_and_told(jobs: Jobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(50)
    job = Guarded(jobs, topic, "added")
    job.until_written(50)
    job.until_looked_at(50)
    topic.add_partitions(2)
    until(lambda: any("a new partition" in reason for reason in job.reasons()), TOLD_S, "an event tells of it")
    topic.write(20, 1)
    job.until_written(70)
    until(lambda: set(job.view["progress"]["lag"][0][topic.name]) == {"0", "1"}, 60, "its lag is told")
    job.stop()
    assert job.values() == values(0, 70)
    assert job.view["restarts"] == 0
    job.end()


def test_all_brokers_away_for_two_minutes_cost_no_record_and_no_restart_of_the_budget(jobs: Jobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2], [2, 3])
    topic.write(50, 0)
    topic.write(50, 1)
    job = Guarded(jobs, topic, "away")
    job.until_written(100)
    job.until_looked_at(50)
    for broker in kraft.brokers:
        broker.kill()
    gone_at = time.monotonic()
    until(lambda: "no broker tells of it" in job.view["reason"], 60, "the reason says so")
    until(lambda: time.monotonic() - gone_at > AWAY_S, AWAY_S + 10, "two minutes have passed", every_s=1)
    assert job.view["phase"] in ("RUNNING", "STARTING", "PENDING"), job.view
    kraft.mend()
    topic.write(10, 0)
    topic.write(10, 1)
    job.until_written(120)
    until(lambda: "in order again" in job.view["reason"], 120, "the reason says that it has passed")
    job.stop()
    assert job.values() == values(0, 120)
    assert "failures in a row" not in jobs.ok("show", job.id)
    job.end()


def test_options_that_move_offsets_behind_its_back_are_refused_unless_the_job_opts_out(jobs: Jobs, kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(10)
    refused = Guarded(jobs, topic, "lossy", "--lossy")
    failed = jobs.in_phase(refused.id, "FAILED", within_s=120)
    assert "failOnDataLoss=false" in failed["reason"] and "holdfast.guards.off=kafka-offsets" in failed["reason"]
    allowed = Guarded(jobs, topic, "lossy-by-choice", "--lossy", holdfast_guards_off="kafka-offsets")
    allowed.until_written(10)
    allowed.end()
