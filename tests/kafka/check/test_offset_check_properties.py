"""Safety properties of the offset check, against a simulated log in which every record has a unique name."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.kafka.check.broker_snapshot import BrokerSnapshot, EpochEndOffset, PartitionSnapshot, TopicSnapshot
from holdfast.kafka.check.checkpoint_offsets import Partition, PartitionPosition
from holdfast.kafka.check.last_known import LastKnown, update_last_known
from holdfast.kafka.check.offset_check import check_offsets
from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, Severity
from tests.harness.kafka.severity import worst_severity

PARTITION = Partition("t", 0)


@dataclass(frozen=True)
class SimulatedLog:
    """Log of one partition. Each record has the epoch that wrote it and a unique name."""

    id: str = "id-0"
    epoch: int = 0
    earliest: int = 0
    records: tuple[tuple[int, int], ...] = ()
    written: int = 0

    @property
    def latest(self) -> int:
        return len(self.records)

    def records_by_offset(self) -> dict[int, int]:
        return {offset: name for offset, (_, name) in enumerate(self.records) if offset >= self.earliest}

    def append(self, count: int) -> "SimulatedLog":
        added = tuple((self.epoch, self.written + each) for each in range(count))
        return replace(self, records=self.records + added, written=self.written + count)

    def elect(self) -> "SimulatedLog":
        return replace(self, epoch=self.epoch + 1)

    def truncate(self, count: int) -> "SimulatedLog":
        """Elect a leader that lacks the last `count` records."""
        end = max(self.earliest, self.latest - count)
        return replace(self, epoch=self.epoch + 1, records=self.records[:end])

    def delete(self, count: int) -> "SimulatedLog":
        return replace(self, earliest=min(self.latest, self.earliest + count))

    def recreate(self, count: int) -> "SimulatedLog":
        return SimulatedLog(id=f"{self.id}'", written=self.written).append(count)

    def snapshot(self, known_epoch: int | None) -> BrokerSnapshot:
        epoch_end = None
        if known_epoch is not None and self.epoch > known_epoch:
            end = next((offset for offset, (epoch, _) in enumerate(self.records) if epoch > known_epoch), self.latest)
            epoch_end = EpochEndOffset(known_epoch, end)
        partition = PartitionSnapshot(self.earliest, self.latest, 1, self.epoch, epoch_end)
        return BrokerSnapshot({"t": TopicSnapshot(self.id, {0: partition})})


@dataclass
class SimulatedJob:
    next: int = 0
    read: dict[int, int] = field(default_factory=dict)
    """Name by offset of every record that the job has read."""
    read_at_last_check: dict[int, int] = field(default_factory=dict)
    """Copy of `read` at the last check without a problem."""
    log_at_last_check: dict[int, int] = field(default_factory=dict)
    """Content of the log at that check."""
    last_known: LastKnown = field(default_factory=LastKnown)

    def read_next(self, log: SimulatedLog, count: int) -> None:
        """Read up to `count` records. Like Spark, read nothing if the offset is out of range."""
        if log.earliest <= self.next <= log.latest:
            until = min(log.latest, self.next + count)
            self.read |= {offset: name for offset, name in log.records_by_offset().items() if self.next <= offset < until}
            self.next = until

    def check(self, log: SimulatedLog, uncommitted: int = 0) -> tuple[OffsetFinding, ...]:
        """Check the offsets while the last `uncommitted` records are in a batch that is not committed."""
        saved = {PARTITION: PartitionPosition(max(0, self.next - uncommitted), self.next)}
        snapshot = log.snapshot(self.last_known.leader_epochs().get(PARTITION))
        findings = check_offsets(saved, self.last_known, snapshot)
        self.last_known = update_last_known(self.last_known, saved, snapshot, findings)
        if worst_severity(findings) in (None, Severity.NOTE):
            self.read_at_last_check = dict(self.read)
            self.log_at_last_check = {offset: name for offset, (_, name) in enumerate(log.records)}
        return findings

    def vanished(self, log: SimulatedLog) -> int:
        """Count records that the job has read and that a truncation removed."""
        present = {name for _, name in log.records}
        return sum(1 for name in self.read.values() if name not in present)

    def skipped(self, log: SimulatedLog, start: int) -> int:
        known = set(self.read.values())
        return sum(1 for offset, name in log.records_by_offset().items() if offset < start and name not in known)

    def repeated(self, log: SimulatedLog, start: int) -> int:
        known = set(self.read.values())
        return sum(1 for offset, name in log.records_by_offset().items() if offset >= start and name in known)


counts = st.integers(0, 12)
harmless_events = st.one_of(
    st.tuples(st.just("append"), counts), st.tuples(st.just("elect"), st.just(0)), st.tuples(st.just("read"), counts)
)
fault_events = st.tuples(st.sampled_from(["truncate", "delete", "recreate"]), st.integers(1, 20))
check_events = st.tuples(st.just("check"), st.just(0))
any_events = st.lists(st.one_of(harmless_events, harmless_events, fault_events, check_events), max_size=25)


def apply_event(log: SimulatedLog, job: SimulatedJob, event: str, count: int) -> SimulatedLog:
    if event == "read":
        job.read_next(log, count)
        return log
    handlers: dict[str, Callable[[int], SimulatedLog]] = {
        "append": log.append,
        "truncate": log.truncate,
        "delete": log.delete,
        "recreate": log.recreate,
    }
    return log.elect() if event == "elect" else handlers[event](count)


@given(st.lists(harmless_events, max_size=25), st.data())
@settings(deadline=None)
def test_growing_log_never_has_a_problem(events: list[tuple[str, int]], data: st.DataObject) -> None:
    log, job = SimulatedLog(), SimulatedJob()
    for event, count in events:
        log = apply_event(log, job, event, count)
        if data.draw(st.booleans()):
            assert {finding.kind for finding in job.check(log)} <= {FindingKind.FIRST_CHECK, FindingKind.NEW_LEADER}


@pytest.mark.slow
@given(any_events, counts)
@settings(max_examples=500, deadline=None)
def test_job_is_stopped_if_a_record_that_it_read_was_replaced(events: list[tuple[str, int]], uncommitted: int) -> None:
    log, job = SimulatedLog().append(10), SimulatedJob()
    job.check(log)
    for event, count in [*events, ("check", 0)]:
        if event != "check":
            log = apply_event(log, job, event, count)
            continue
        present = {name for _, name in log.records}
        known = job.read_at_last_check | {offset: name for offset, name in job.log_at_last_check.items() if offset < job.next}
        gone = set(known.values()) - present
        deleted_unread = log.earliest > max(0, job.next - uncommitted)
        beyond = job.next > log.latest
        severity = worst_severity(job.check(log, uncommitted))
        if gone or deleted_unread:
            assert severity is Severity.STOP
            return
        assert severity in (Severity.WAIT, Severity.STOP) or not beyond


@pytest.mark.slow
@given(st.lists(harmless_events, max_size=10), fault_events, st.lists(harmless_events, max_size=6))
@settings(max_examples=500, deadline=None)
def test_counts_in_findings_are_exact(
    before: list[tuple[str, int]], fault: tuple[str, int], after: list[tuple[str, int]]
) -> None:
    """The offsets are checked right before a fault, and the job reads nothing after it."""
    log, job = SimulatedLog().append(10), SimulatedJob()
    for event, count in before:
        log = apply_event(log, job, event, count)
    job.check(log)
    unread = set(log.records_by_offset().values()) - set(job.read.values())
    log = apply_event(log, job, *fault)
    for event, count in after:
        log = log if event == "read" else apply_event(log, job, event, count)
    gone_unread = len(unread - set(log.records_by_offset().values()))
    for finding in job.check(log):
        if finding.kind is FindingKind.FIRST_CHECK:
            continue
        if finding.vanished is not None and not finding.vanished_more:
            assert finding.vanished == job.vanished(log)
        if finding.lost is not None:
            assert finding.lost == gone_unread
        choices = ((job.next, finding.keep), (log.earliest, finding.from_earliest), (log.latest, finding.from_latest))
        for start, impact in choices:
            if impact is not None:
                assert (impact.skipped, impact.repeated) == (job.skipped(log, start), job.repeated(log, start))
        if finding.mends is not None:
            assert (job.skipped(log, finding.mends), job.repeated(log, finding.mends)) == (0, 0)


@given(st.lists(harmless_events, max_size=15), st.integers(0, 14))
@settings(deadline=None)
def test_stale_leader_never_stops_a_healthy_job(events: list[tuple[str, int]], age: int) -> None:
    logs, job = [SimulatedLog().append(10)], SimulatedJob()
    for event, count in events:
        logs.append(apply_event(logs[-1], job, event, count))
    job.check(logs[-1])
    before = job.last_known
    stale = logs[max(0, len(logs) - 1 - age)]
    findings = job.check(stale)
    assert worst_severity(findings) in (None, Severity.NOTE, Severity.WAIT)
    if stale.epoch < logs[-1].epoch and before.leader_epochs():
        assert job.last_known == before


@given(any_events)
@settings(deadline=None)
def test_last_known_state_does_not_change_while_there_is_a_problem(events: list[tuple[str, int]]) -> None:
    log, job = SimulatedLog().append(10), SimulatedJob()
    for event, count in events:
        if event != "check":
            log = apply_event(log, job, event, count)
            continue
        before = job.last_known
        if worst_severity(job.check(log)) in (Severity.WAIT, Severity.STOP):
            assert job.last_known == before
