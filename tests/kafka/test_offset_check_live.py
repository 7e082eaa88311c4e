"""Every offset problem, produced with real brokers. Counts are compared with the actual records."""

import pytest

from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, Severity
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.topic import SETTLE_S, CheckedReader, Topic
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_valid_offsets_have_no_findings_after_the_first_check(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=60)
    assert kinds(reader.wait_until_settled()) == []
    reader.topic.write(5)
    reader.read_up_to(105)
    assert kinds(reader.wait_until_settled()) == []


def test_records_deleted_before_they_were_read_are_counted(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=60)
    reader.topic.delete_records(83)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.weight) == (FindingKind.RETENTION, Severity.STOP)
    assert (finding.saved, finding.earliest, finding.latest, finding.lost) == (60, 83, 100, 23)
    check_choices(finding, reader)


def test_deleted_records_that_were_read_are_no_finding(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=60)
    reader.topic.delete_records(60)
    assert kinds(reader.wait_until_settled()) == []


def test_planned_batch_needs_its_records(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=60)
    reader.plan_up_to(90)
    assert kinds(reader.wait_until_settled()) == []
    reader.topic.delete_records(61)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.lost) == (FindingKind.RETENTION, 1)


def test_truncation_by_an_unclean_election_is_counted_exactly(kraft: Brokers) -> None:
    reader = make_truncated_reader(kraft, common=60, only_on_leader=40, read=85)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.weight) == (FindingKind.TRUNCATED, Severity.STOP)
    assert (finding.saved, finding.earliest, finding.latest) == (85, 0, 60)
    assert finding.vanished == reader.actual_counts().vanished == 25
    assert (finding.lost, finding.lost_more) == (15, True)
    assert finding.mends == 60
    check_choices(finding, reader)


def test_truncated_log_that_grew_past_the_saved_offset_is_counted_exactly(kraft: Brokers) -> None:
    reader = make_truncated_reader(kraft, common=60, only_on_leader=40, read=100)
    reader.topic.write(70)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.weight) == (FindingKind.REGROWN, Severity.STOP)
    assert (finding.saved, finding.earliest, finding.latest) == (100, 0, 130)
    assert finding.vanished == reader.actual_counts().vanished == 40
    assert finding.keep is not None and finding.keep.skipped == 40
    assert finding.mends == 60
    check_choices(finding, reader)
    # The broker that had the records returns as a follower: nothing changes.
    kraft.restore()
    wait_until(lambda: reader.topic.in_sync_replicas() == {1, 2}, SETTLE_S, "both are in sync")
    assert kinds(reader.wait_until_settled()) == [FindingKind.REGROWN]


def test_truncation_before_the_first_check_is_not_guessed(kraft: Brokers) -> None:
    reader = make_truncated_reader(kraft, common=60, only_on_leader=40, read=100, checked=False)
    reader.topic.write(70)
    findings = reader.wait_until_settled()
    assert [(finding.kind, finding.weight) for finding in findings] == [(FindingKind.FIRST_CHECK, Severity.NOTE)]
    assert "cannot detect" in findings[0].sentence


def test_truncation_of_unread_records_is_a_note(kraft: Brokers) -> None:
    reader = make_truncated_reader(kraft, common=60, only_on_leader=40, read=50)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.weight, finding.lost) == (FindingKind.TRUNCATED_AHEAD, Severity.NOTE, 40)
    reader.topic.write(10)
    assert kinds(reader.wait_until_settled()) == []


def test_deleted_topic_waits(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=60)
    reader.topic.delete()
    (finding,) = reader.check()
    assert (finding.kind, finding.partition, finding.lost, finding.lost_more) == (FindingKind.TOPIC_DELETED, None, 40, True)
    assert finding.weight is Severity.WAIT


@pytest.mark.parametrize("new_records", [20, 150])
def test_recreated_topic_stops_the_job_whatever_its_length(kraft: Brokers, new_records: int) -> None:
    reader = make_reader(kraft, written=100, read=60)
    reader.topic.delete()
    reader.topic.create([1, 2])
    reader.topic.write(new_records)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.weight) == (FindingKind.TOPIC_RECREATED, Severity.STOP)
    assert (finding.saved, finding.earliest, finding.latest) == (60, 0, new_records)
    assert (finding.lost, finding.lost_more, finding.mends) == (40, True, 0)
    check_choices(finding, reader)


def test_added_partition_is_a_note_once(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=60)
    reader.topic.add_partitions(2)
    reader.topic.write(7, 1)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.weight, finding.partition, finding.lost) == (FindingKind.PARTITION_ADDED, Severity.NOTE, 1, 0)
    reader.read_up_to(7, 1)
    assert kinds(reader.wait_until_settled()) == [FindingKind.FIRST_CHECK]
    assert kinds(reader.wait_until_settled()) == []


def test_added_partition_with_lost_records_stops_the_job(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=60)
    reader.topic.add_partitions(2)
    reader.topic.write(7, 1)
    reader.topic.delete_records(3, 1)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.weight, finding.partition, finding.lost) == (FindingKind.PARTITION_ADDED, Severity.STOP, 1, 3)


def test_recreated_topic_with_fewer_partitions_has_a_missing_partition(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2], [2, 3])
    topic.write(10, 0)
    topic.write(10, 1)
    reader = CheckedReader(topic)
    reader.read_up_to(10, 0)
    reader.read_up_to(8, 1)
    topic.delete()
    topic.create([1, 2])
    (first, missing) = [finding for finding in reader.check() if finding.kind is not FindingKind.FIRST_CHECK]
    assert [(finding.kind, finding.weight) for finding in (first, missing)] == [
        (FindingKind.BEYOND_END, Severity.WAIT),
        (FindingKind.PARTITION_MISSING, Severity.WAIT),
    ]


def test_killed_leader_only_waits(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=100)
    kraft[1].kill()
    findings_seen = check_until_healthy(reader)
    assert {finding.weight for finding in findings_seen} <= {Severity.WAIT}, findings_seen
    wait_until(lambda: reader.topic.leader() == 2, SETTLE_S, "broker 2 leads")
    reader.topic.write(10)
    assert kinds(reader.wait_until_settled()) == []


def test_paused_leader_only_waits(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=100)
    kraft[1].pause()
    findings = reader.check()
    assert {finding.weight for finding in findings} == {Severity.WAIT}, findings
    findings_seen = check_until_healthy(reader)
    assert {finding.weight for finding in findings_seen} <= {Severity.WAIT}, findings_seen
    kraft[1].resume()
    findings_seen = check_until_healthy(reader)
    assert {finding.weight for finding in findings_seen} <= {Severity.WAIT}, findings_seen


def test_unreachable_cluster_waits(kraft: Brokers) -> None:
    reader = make_reader(kraft, written=100, read=100)
    before = reader.last_known
    for broker in kraft.brokers:
        broker.kill()
    (finding,) = reader.check()
    assert (finding.kind, finding.weight) == (FindingKind.BROKER_UNREACHABLE, Severity.WAIT)
    assert "refused" in finding.sentence
    assert reader.last_known == before
    kraft.restore()
    check_until_healthy(reader)


def test_partition_without_a_leader_waits(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([3])
    topic.write(10)
    reader = CheckedReader(topic)
    reader.read_up_to(10)
    reader.wait_until_settled()
    kraft[3].kill()
    findings = wait_until(lambda: [f for f in reader.check() if f.kind is FindingKind.NO_LEADER], SETTLE_S, "no leader")
    assert findings[0].weight is Severity.WAIT
    kraft.restart(3)
    check_until_healthy(reader)


def test_expired_zookeeper_session_of_a_broker_changes_no_offset(zookeeper_cluster: Brokers) -> None:
    """Incident 002: the broker still acts as leader for a while."""
    reader = make_reader(zookeeper_cluster, written=100, read=100)
    zookeeper_cluster[1].pause()
    findings_seen = check_until_healthy(reader)
    wait_until(lambda: reader.topic.leader() == 2, SETTLE_S, "broker 2 leads")
    reader.topic.write(50)
    reader.read_up_to(150)
    assert kinds(reader.wait_until_settled()) == []
    zookeeper_cluster[1].resume()
    wait_until(
        lambda: b"has expired" in zookeeper_cluster[1].log.read_bytes(), SETTLE_S, "broker 1 learns that its session expired"
    )
    findings_seen += check_until_healthy(reader)
    # Until now it has answered as leader, with a log that ends at 100.
    follows = f"Follower {reader.topic.name}-0".encode()
    wait_until(lambda: follows in zookeeper_cluster[1].log.read_bytes(), SETTLE_S, "broker 1 is a follower")
    wait_until(lambda: reader.topic.in_sync_replicas() == {1, 2}, SETTLE_S, "broker 1 follows")
    findings_seen += reader.wait_until_settled()
    assert {finding.weight for finding in findings_seen} <= {Severity.WAIT}, findings_seen
    assert reader.actual_counts().vanished == 0


def test_truncation_with_zookeeper_brokers_is_counted_exactly(zookeeper_cluster: Brokers) -> None:
    reader = make_truncated_reader(zookeeper_cluster, common=60, only_on_leader=40, read=100)
    reader.topic.write(10)
    (finding,) = reader.wait_until_settled()
    assert (finding.kind, finding.saved, finding.latest, finding.mends) == (FindingKind.TRUNCATED, 100, 70, 60)
    assert finding.vanished == reader.actual_counts().vanished == 40
    check_choices(finding, reader)


# Scenarios


def make_reader(brokers: Brokers, *, written: int, read: int) -> CheckedReader:
    """Return a checked reader that has read a part of a topic on brokers 1 and 2."""
    topic = Topic(brokers)
    topic.create([1, 2])
    wait_until(lambda: topic.in_sync_replicas() == {1, 2}, SETTLE_S, "both are in sync")
    topic.write(written)
    reader = CheckedReader(topic)
    reader.read_up_to(read)
    reader.wait_until_settled()
    return reader


def make_truncated_reader(
    brokers: Brokers, *, common: int, only_on_leader: int, read: int, checked: bool = True
) -> CheckedReader:
    """Return a reader after an unclean election: broker 1 dies with records that broker 2 never got."""
    topic = Topic(brokers, **{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    topic.create([1, 2])
    wait_until(lambda: topic.in_sync_replicas() == {1, 2}, SETTLE_S, "both are in sync")
    topic.write(common)
    brokers[2].kill()
    wait_until(lambda: topic.in_sync_replicas() == {1}, SETTLE_S, "broker 2 is out of sync")
    topic.write(only_on_leader)
    reader = CheckedReader(topic)
    reader.read_up_to(read)
    if checked:
        assert kinds(reader.wait_until_settled()) == [FindingKind.FIRST_CHECK]
    brokers[1].kill()
    brokers.restart(2)
    wait_until(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
    return reader


def check_until_healthy(reader: CheckedReader) -> list[OffsetFinding]:
    """Check until there are no findings. Return all findings on the way, without leader changes."""
    findings_seen: list[OffsetFinding] = []

    def is_healthy() -> bool:
        findings = reader.check()
        findings_seen.extend(finding for finding in findings if finding.kind is not FindingKind.NEW_LEADER)
        return not findings

    wait_until(is_healthy, SETTLE_S, "no findings")
    return findings_seen


def kinds(findings: tuple[OffsetFinding, ...]) -> list[FindingKind]:
    """Return the kinds without leader changes, which may happen at any time."""
    return [finding.kind for finding in findings if finding.kind is not FindingKind.NEW_LEADER]


def check_choices(finding: OffsetFinding, reader: CheckedReader) -> None:
    """Compare the predicted impact of each choice with the actual records."""
    actual = reader.actual_counts()
    assert finding.saved is not None and finding.earliest is not None and finding.latest is not None
    for start, impact in (
        (finding.saved, finding.keep),
        (finding.earliest, finding.from_earliest),
        (finding.latest, finding.from_latest),
    ):
        assert impact is not None
        assert (impact.skipped, impact.repeated) == (actual.skipped_from(start), actual.repeated_from(start)), start
    assert finding.mends is not None
    assert (actual.skipped_from(finding.mends), actual.repeated_from(finding.mends)) == (0, 0)
