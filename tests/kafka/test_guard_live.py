"""Every way in which a saved offset goes wrong, done to real brokers, and counted record by record."""

import pytest

from holdfast.kafka import Finding, Kind, Weight, verdict
from holdfast.kafka.check.findings_table import table
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.topic import SETTLE_S, Job, Topic
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_offsets_that_are_where_they_should_be_are_no_finding_once_they_were_seen(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=60)
    assert kinds(job.settled()) == []
    job.topic.write(5)
    job.read_up_to(105)
    assert kinds(job.settled()) == []


def test_records_that_were_deleted_before_they_were_read_are_counted(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=60)
    job.topic.delete_records(83)
    (finding,) = job.settled()
    assert (finding.kind, finding.weight) == (Kind.RETENTION, Weight.STOP)
    assert (finding.saved, finding.earliest, finding.latest, finding.lost) == (60, 83, 100, 23)
    check_choices(finding, job)


def test_records_that_were_read_may_be_deleted(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=60)
    job.topic.delete_records(60)
    assert kinds(job.settled()) == []


def test_a_batch_that_is_repeated_needs_its_records(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=60)
    job.plan_up_to(90)
    assert kinds(job.settled()) == []
    job.topic.delete_records(61)
    (finding,) = job.settled()
    assert (finding.kind, finding.lost) == (Kind.RETENTION, 1)


def test_an_unclean_election_that_truncates_is_told_to_the_record(kraft: Brokers) -> None:
    job = truncated(kraft, common=60, only_on_the_first=40, read=85)
    (finding,) = job.settled()
    assert (finding.kind, finding.weight) == (Kind.TRUNCATED, Weight.STOP)
    assert (finding.saved, finding.earliest, finding.latest) == (85, 0, 60)
    assert finding.vanished == job.truth().vanished == 25
    assert (finding.lost, finding.lost_more) == (15, True)
    assert finding.mends == 60
    check_choices(finding, job)
    assert "60" in table([finding])


def test_a_log_that_was_truncated_and_has_regrown_past_the_saved_offset_is_told_to_the_record(kraft: Brokers) -> None:
    job = truncated(kraft, common=60, only_on_the_first=40, read=100)
    job.topic.write(70)
    (finding,) = job.settled()
    assert (finding.kind, finding.weight) == (Kind.REGROWN, Weight.STOP)
    assert (finding.saved, finding.earliest, finding.latest) == (100, 0, 130)
    assert finding.vanished == job.truth().vanished == 40
    assert finding.keep is not None and finding.keep.skipped == 40
    assert finding.mends == 60
    check_choices(finding, job)
    # The broker that had the records is back, and follows: nothing changes.
    kraft.mend()
    eventually(lambda: job.topic.in_sync() == {1, 2}, SETTLE_S, "both are in sync")
    assert kinds(job.settled()) == [Kind.REGROWN]


def test_what_was_truncated_before_anybody_looked_is_not_guessed_at(kraft: Brokers) -> None:
    job = truncated(kraft, common=60, only_on_the_first=40, read=100, looked=False)
    job.topic.write(70)
    findings = job.settled()
    assert [(finding.kind, finding.weight) for finding in findings] == [(Kind.FIRST_SIGHT, Weight.NOTE)]
    assert "cannot be known" in findings[0].sentence


def test_records_that_were_truncated_before_they_were_read_are_a_note(kraft: Brokers) -> None:
    job = truncated(kraft, common=60, only_on_the_first=40, read=50)
    (finding,) = job.settled()
    assert (finding.kind, finding.weight, finding.lost) == (Kind.TRUNCATED_AHEAD, Weight.NOTE, 40)
    job.topic.write(10)
    assert kinds(job.settled()) == []


def test_a_topic_that_was_deleted_is_told(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=60)
    job.topic.delete()
    (finding,) = job.check()
    assert (finding.kind, finding.partition, finding.lost, finding.lost_more) == (Kind.DELETED, None, 40, True)
    assert finding.weight is Weight.WAIT


@pytest.mark.parametrize("rewritten", [20, 150])
def test_a_topic_that_was_created_again_is_another_one_however_long_it_is(kraft: Brokers, rewritten: int) -> None:
    job = reading(kraft, written=100, read=60)
    job.topic.delete()
    job.topic.create([1, 2])
    job.topic.write(rewritten)
    (finding,) = job.settled()
    assert (finding.kind, finding.weight) == (Kind.RECREATED, Weight.STOP)
    assert (finding.saved, finding.earliest, finding.latest) == (60, 0, rewritten)
    assert (finding.lost, finding.lost_more, finding.mends) == (40, True, 0)
    check_choices(finding, job)


def test_a_partition_that_was_added_is_a_note_and_then_known(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=60)
    job.topic.add_partitions(2)
    job.topic.write(7, 1)
    (finding,) = job.settled()
    assert (finding.kind, finding.weight, finding.partition, finding.lost) == (Kind.ADDED, Weight.NOTE, 1, 0)
    job.read_up_to(7, 1)
    assert kinds(job.settled()) == [Kind.FIRST_SIGHT]
    assert kinds(job.settled()) == []


def test_a_partition_that_was_added_and_lost_records_before_they_were_read_stops_the_job(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=60)
    job.topic.add_partitions(2)
    job.topic.write(7, 1)
    job.topic.delete_records(3, 1)
    (finding,) = job.settled()
    assert (finding.kind, finding.weight, finding.partition, finding.lost) == (Kind.ADDED, Weight.STOP, 1, 3)


def test_a_topic_that_was_created_again_with_fewer_partitions_has_lost_one(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2], [2, 3])
    topic.write(10, 0)
    topic.write(10, 1)
    job = Job(topic)
    job.read_up_to(10, 0)
    job.read_up_to(8, 1)
    topic.delete()
    topic.create([1, 2])
    (first, gone) = [finding for finding in job.check() if finding.kind is not Kind.FIRST_SIGHT]
    assert [(finding.kind, finding.weight) for finding in (first, gone)] == [
        (Kind.BEYOND_END, Weight.WAIT),
        (Kind.GONE, Weight.WAIT),
    ]


def test_a_leader_that_is_killed_passes_by_itself(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=100)
    kraft[1].kill()
    seen = until_in_order(job)
    assert all(verdict([finding]) == Weight.WAIT for finding in seen), seen
    eventually(lambda: job.topic.leader() == 2, SETTLE_S, "broker 2 leads")
    job.topic.write(10)
    assert kinds(job.settled()) == []


def test_a_leader_that_is_paused_passes_by_itself(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=100)
    kraft[1].pause()
    findings = job.check()
    assert {finding.weight for finding in findings} == {Weight.WAIT}, findings
    seen = until_in_order(job)
    assert {finding.weight for finding in seen} <= {Weight.WAIT}, seen
    kraft[1].resume()
    seen = until_in_order(job)
    assert {finding.weight for finding in seen} <= {Weight.WAIT}, seen


def test_no_broker_at_all_is_waited_for(kraft: Brokers) -> None:
    job = reading(kraft, written=100, read=100)
    remembered = job.memory
    for broker in kraft.brokers:
        broker.kill()
    (finding,) = job.check()
    assert (finding.kind, finding.weight) == (Kind.BROKER_AWAY, Weight.WAIT)
    assert "refused" in finding.sentence
    assert job.memory == remembered
    kraft.mend()
    until_in_order(job)


def test_a_partition_without_a_leader_is_waited_for(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([3])
    topic.write(10)
    job = Job(topic)
    job.read_up_to(10)
    job.settled()
    kraft[3].kill()
    found = eventually(lambda: [f for f in job.check() if f.kind is Kind.LEADER_AWAY], SETTLE_S, "no leader")
    assert found[0].weight is Weight.WAIT
    kraft.restart(3)
    until_in_order(job)


def test_a_broker_that_loses_its_zookeeper_session_and_comes_back_changes_no_offset(on_zookeeper: Brokers) -> None:
    """Incident 002: it believes for a while that it still leads."""
    job = reading(on_zookeeper, written=100, read=100)
    on_zookeeper[1].pause()
    seen = until_in_order(job)
    eventually(lambda: job.topic.leader() == 2, SETTLE_S, "broker 2 leads")
    job.topic.write(50)
    job.read_up_to(150)
    assert kinds(job.settled()) == []
    on_zookeeper[1].resume()
    eventually(lambda: b"has expired" in on_zookeeper[1].log.read_bytes(), SETTLE_S, "broker 1 hears that its session expired")
    seen += until_in_order(job)
    # Until now it has told everybody that it leads, and that its log ends at 100.
    follows = f"Follower {job.topic.name}-0".encode()
    eventually(lambda: follows in on_zookeeper[1].log.read_bytes(), SETTLE_S, "broker 1 knows that it does not lead")
    eventually(lambda: job.topic.in_sync() == {1, 2}, SETTLE_S, "broker 1 follows")
    seen += job.settled()
    assert {finding.weight for finding in seen} <= {Weight.WAIT}, seen
    assert job.truth().vanished == 0


def test_the_same_with_an_unclean_election_is_told_to_the_record(on_zookeeper: Brokers) -> None:
    job = truncated(on_zookeeper, common=60, only_on_the_first=40, read=100)
    job.topic.write(10)
    (finding,) = job.settled()
    assert (finding.kind, finding.saved, finding.latest, finding.mends) == (Kind.TRUNCATED, 100, 70, 60)
    assert finding.vanished == job.truth().vanished == 40
    check_choices(finding, job)


# What happens in them


def reading(brokers: Brokers, *, written: int, read: int) -> Job:
    """A job that has read a part of a topic on brokers 1 and 2, and was looked at."""
    topic = Topic(brokers)
    topic.create([1, 2])
    eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "both are in sync")
    topic.write(written)
    job = Job(topic)
    job.read_up_to(read)
    job.settled()
    return job


def truncated(brokers: Brokers, *, common: int, only_on_the_first: int, read: int, looked: bool = True) -> Job:
    """Broker 1 has records that broker 2 never got; then it dies and broker 2 takes over."""
    topic = Topic(brokers, **{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    topic.create([1, 2])
    eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "both are in sync")
    topic.write(common)
    brokers[2].kill()
    eventually(lambda: topic.in_sync() == {1}, SETTLE_S, "broker 2 is out of sync")
    topic.write(only_on_the_first)
    job = Job(topic)
    job.read_up_to(read)
    if looked:
        assert kinds(job.settled()) == [Kind.FIRST_SIGHT]
    brokers[1].kill()
    brokers.restart(2)
    eventually(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
    return job


def until_in_order(job: Job) -> list[Finding]:
    """Everything that was found until nothing was."""
    seen: list[Finding] = []

    def in_order() -> bool:
        found = job.check()
        seen.extend(finding for finding in found if finding.kind is not Kind.MOVED)
        return not found

    eventually(in_order, SETTLE_S, "nothing is found any more")
    return seen


def kinds(findings: tuple[Finding, ...]) -> list[Kind]:
    """Without the leaders: they change hands for reasons of their own."""
    return [finding.kind for finding in findings if finding.kind is not Kind.MOVED]


def check_choices(finding: Finding, job: Job) -> None:
    """What each choice is said to do is what it does, record by record."""
    truth = job.truth()
    assert finding.saved is not None and finding.earliest is not None and finding.latest is not None
    for start, told in (
        (finding.saved, finding.keep),
        (finding.earliest, finding.from_earliest),
        (finding.latest, finding.from_latest),
    ):
        assert told is not None
        assert (told.skipped, told.repeated) == (truth.skipped_from(start), truth.repeated_from(start)), start
    assert finding.mends is not None
    assert (truth.skipped_from(finding.mends), truth.repeated_from(finding.mends)) == (0, 0)
