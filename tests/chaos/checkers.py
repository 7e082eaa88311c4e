"""Checkers: pure functions from a history to the violations in it. Each function is one rule.

An operation with an unknown outcome is neither a success nor a failure: rules that need an acknowledgement skip it, and rules
that need a refusal skip it too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from tests.chaos.history import (
    ACKNOWLEDGED,
    REFUSED,
    FaultRecord,
    HeartbeatSeries,
    History,
    JobSample,
    OperationRecord,
    WitnessedProcess,
)

START_ALLOWANCE_S = 10.0
"""A driver whose lease was taken just before the cancel was written may still start within this time, to be killed at once."""
FINAL_PHASES = frozenset({"FINISHED", "FAILED", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    job: str
    at: float
    text: str
    fault: int = 0
    """Number of the last fault before it; 0 if there was none."""


Rule = Callable[[History], Iterator[Violation]]
Job = TypeVar("Job", WitnessedProcess, HeartbeatSeries, JobSample)


def check_history(history: History) -> list[Violation]:
    """Return all violations in order of time."""
    violations = [violation for rule in RULES for violation in rule(history)]
    return sorted(violations, key=lambda each: (each.at, each.rule, each.job))


def check_single_driver_by_kernel(history: History) -> Iterator[Violation]:
    """Two processes of one job with different nonces were alive in the same instant."""
    for job, processes in _by_job(history.processes).items():
        newest: WitnessedProcess | None = None
        for process in sorted(processes, key=lambda each: each.first_seen):
            if newest is not None and newest.nonce != process.nonce and newest.last_seen > process.first_seen:
                together_s = min(newest.last_seen, process.last_seen) - process.first_seen
                text = (
                    f"process {newest.pid} of attempt {newest.attempt} and process {process.pid} of attempt {process.attempt} "
                    f"were alive together for {together_s:.2f} s"
                )
                yield _violation(history, "single driver by kernel", job, process.first_seen, text)
            if newest is None or process.last_seen > newest.last_seen:
                newest = process


def check_single_driver_by_heartbeats(history: History) -> Iterator[Violation]:
    """A driver wrote a heartbeat after a later attempt of its job had written one."""
    for job, series in _by_job(history.heartbeats).items():
        for earlier, later in pairwise(sorted(series, key=lambda each: each.times[0])):
            if earlier.times[-1] > later.times[0]:
                text = (
                    f"attempt {earlier.attempt} wrote heartbeats for {earlier.times[-1] - later.times[0]:.2f} s "
                    f"after attempt {later.attempt} began to"
                )
                yield _violation(history, "single driver by heartbeats", job, later.times[0], text)


def check_cancelled_jobs_stay_dead(history: History) -> Iterator[Violation]:
    """After an acknowledged cancel no attempt starts, and none is alive once the user was told that the job has ended."""
    processes, heartbeats = _by_job(history.processes), _by_job(history.heartbeats)
    for operation in _acknowledged_operations(history, "cancel"):
        for process in processes.get(operation.job, []):
            if process.first_seen > operation.ended_at + START_ALLOWANCE_S:
                text = f"attempt {process.attempt} started after the cancel was acknowledged"
                yield _violation(history, "cancelled jobs stay dead", operation.job, process.first_seen, text)
    for operation in _acknowledged_operations(history, "ended"):
        last_signs = [(each.last_seen, each.attempt) for each in processes.get(operation.job, [])]
        last_signs += [(each.times[-1], each.attempt) for each in heartbeats.get(operation.job, [])]
        at, attempt = max(last_signs, default=(0.0, 0))
        if at > operation.ended_at:
            text = f"attempt {attempt} was alive {at - operation.ended_at:.2f} s after the user was told that the job has ended"
            yield _violation(history, "cancelled jobs stay dead", operation.job, at, text)


def check_promised_drivers_stay(history: History) -> Iterator[Violation]:
    """A job that a fault must not restart keeps its driver until the next fault.

    A driver died between its last observation and the first scan without it. It is a violation if no fault of this time may
    restart the job.
    """
    drivers = _by_job(process for process in history.processes if process.is_driver)
    windows = list(_fault_windows(history))
    for steady in history.steady:
        for driver in drivers.get(steady.job, []):
            if driver.gone_at is None:
                continue
            possible = [fault for fault, until in windows if fault.injected_at < driver.gone_at and driver.last_seen < until]
            if possible and not any(steady.job in fault.may_restart for fault in possible):
                fault = possible[-1]
                text = (
                    f"{steady.name}: driver {driver.pid} of attempt {driver.attempt} ended "
                    f"{driver.gone_at - fault.injected_at:.1f} s after '{fault.kind}' {fault.duration}, "
                    "which must not restart it"
                )
                yield _violation(history, "promised drivers stay", steady.job, driver.gone_at, text)


def check_jobs_of_lost_nodes_move(history: History) -> Iterator[Violation]:
    """The jobs of a node that is lost permanently run elsewhere in time, while the fault lasts.

    Any later attempt runs elsewhere: a lost node gets no orders.
    """
    heartbeats = _by_job(history.heartbeats)
    for fault in history.faults:
        until = min(fault.healed_at, fault.injected_at + fault.move_bound_s)
        for job in fault.must_move:
            if not any(fault.injected_at < series.times[0] <= until for series in heartbeats.get(job, [])):
                text = f"it did not start elsewhere within {fault.move_bound_s:g} s after '{fault.kind}'"
                yield _violation(history, "jobs of lost nodes move", job, until, text)


def check_recovery_in_time(history: History) -> Iterator[Violation]:
    """After each fault all steady jobs are healthy again within its time limit."""
    for fault in history.faults:
        if fault.recovered_at is None or fault.recovered_at > fault.healed_at + fault.bound_s:
            text = f"not healthy {fault.bound_s:g} s after '{fault.kind}' {fault.duration}: {fault.problem}"
            yield _violation(history, "recovery in time", "", fault.healed_at, text)


def check_attempts_grow(history: History) -> Iterator[Violation]:
    """The attempt number of a job only grows, in ZooKeeper and among its drivers, and no number is used twice."""
    for job, samples in _by_job(history.samples).items():
        for before, after in pairwise(sorted(samples, key=lambda each: each.at)):
            if after.attempt < before.attempt:
                text = f"its attempt number went back from {before.attempt} to {after.attempt}"
                yield _violation(history, "attempts grow", job, after.at, text)
    for job, processes in _by_job(process for process in history.processes if process.is_driver).items():
        for earlier, later in pairwise(sorted(processes, key=lambda each: each.first_seen)):
            if later.nonce != earlier.nonce and later.attempt <= earlier.attempt:
                text = f"a driver of attempt {later.attempt} started after one of attempt {earlier.attempt}"
                yield _violation(history, "attempts grow", job, later.first_seen, text)


def check_final_phases_stay(history: History) -> Iterator[Violation]:
    for job, samples in _by_job(history.samples).items():
        for before, after in pairwise(sorted(samples, key=lambda each: each.at)):
            if before.phase in FINAL_PHASES and after.phase != before.phase:
                text = f"it left the final phase {before.phase} for {after.phase}"
                yield _violation(history, "final phases stay", job, after.at, text)


def check_requests_create_one_job(history: History) -> Iterator[Violation]:
    """All acknowledged submissions with one request id name the same job."""
    first: dict[str, OperationRecord] = {}
    for operation in _acknowledged_operations(history, "submit"):
        earlier = first.setdefault(operation.request, operation)
        if operation.job != earlier.job:
            text = f"request {operation.request} created {earlier.job} and {operation.job}"
            yield _violation(history, "requests create one job", operation.job, operation.ended_at, text)


def check_submissions_are_kept(history: History) -> Iterator[Violation]:
    """Every acknowledged submission is stored: its job was read from ZooKeeper at least once."""
    known = {sample.job for sample in history.samples}
    last_read_at = max((sample.at for sample in history.samples), default=0.0)
    for operation in _acknowledged_operations(history, "submit"):
        if operation.job not in known and operation.ended_at < last_read_at:
            text = f"request {operation.request} was acknowledged, but its job is not stored"
            yield _violation(history, "submissions are kept", operation.job, operation.ended_at, text)


def check_refusals_have_no_effect(history: History) -> Iterator[Violation]:
    """A job is cancelled only if a cancel was acknowledged or has an unknown outcome."""
    cancels: dict[str, set[str]] = defaultdict(set)
    for operation in history.operations:
        if operation.name == "cancel":
            cancels[operation.job].add(operation.outcome)
    for sample in history.samples:
        if sample.phase == "CANCELLED" and cancels.get(sample.job, {REFUSED}) == {REFUSED}:
            text = "it was cancelled, but every cancel was refused"
            yield _violation(history, "refusals have no effect", sample.job, sample.at, text)


def check_evidence_is_complete(history: History) -> Iterator[Violation]:
    """The witness ran until the last fault was over, and saw every driver that wrote heartbeats for a while."""
    last_at = max((fault.healed_at for fault in history.faults), default=0.0)
    if history.ended_at < last_at:
        yield _violation(history, "evidence is complete", "", history.ended_at, "the witness ended before the last fault")
    seen = {process.nonce for process in history.processes if process.is_driver}
    for series in history.heartbeats:
        if series.nonce not in seen and series.times[-1] - series.times[0] > max(1.0, history.longest_gap_s):
            text = f"attempt {series.attempt} wrote heartbeats, but the witness never saw its driver"
            yield _violation(history, "evidence is complete", series.job, series.times[0], text)


RULES: tuple[Rule, ...] = (
    check_single_driver_by_kernel,
    check_single_driver_by_heartbeats,
    check_cancelled_jobs_stay_dead,
    check_promised_drivers_stay,
    check_jobs_of_lost_nodes_move,
    check_recovery_in_time,
    check_attempts_grow,
    check_final_phases_stay,
    check_requests_create_one_job,
    check_submissions_are_kept,
    check_refusals_have_no_effect,
    check_evidence_is_complete,
)


def _fault_windows(history: History) -> Iterator[tuple[FaultRecord, float]]:
    """Yield each fault with the time of the next one. After the last fault the cluster is stopped, which ends all drivers."""
    for fault, following in pairwise(history.faults):
        yield fault, following.injected_at
    for fault in history.faults[-1:]:
        yield fault, fault.recovered_at or fault.healed_at + fault.bound_s


def _acknowledged_operations(history: History, name: str) -> list[OperationRecord]:
    return [each for each in history.operations if each.name == name and each.outcome == ACKNOWLEDGED]


def _by_job(records: Iterable[Job]) -> dict[str, list[Job]]:
    result: dict[str, list[Job]] = defaultdict(list)
    for record in records:
        result[record.job].append(record)
    return result


def _violation(history: History, rule: str, job: str, at: float, text: str) -> Violation:
    fault = max((fault.number for fault in history.faults if fault.injected_at <= at), default=0)
    return Violation(rule, job, at, text, fault)
