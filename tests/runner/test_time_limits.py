"""Time limits that depend on the trigger of a query: the grace period of a stop and the trial of a new version."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.log import Log
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.job import Outcome, Progress, Report, SparkApplication, Spec
from holdfast.runner.stop_escalation import StopEscalation
from holdfast.runner.timeouts import AttemptTimeouts
from holdfast.runner.trial import Trial
from holdfast.zk.session.client import SessionId
from tests.harness.settable_clock import SettableClock

TIMEOUTS = AttemptTimeouts(stop_timeout_s=60.0, sigterm_timeout_s=10.0)
REAL_TIME_BATCH_S = 300.0


class SilentLog:
    def info(self, event: str, **context: Any) -> None: ...
    def warning(self, event: str, **context: Any) -> None: ...
    def error(self, event: str, **context: Any) -> None: ...


@dataclass
class RecordingDriver:
    """Fake of `DriverExecution` that records its commands."""

    batch_s: float = 0.0
    reported: Progress | None = None
    driver_pid: int | None = 7
    isolation: str = ""
    claimed_checkpoint: str = ""
    note: str = ""
    commands: list[str] = field(default_factory=list)

    is_ready: bool = False
    has_queries: bool = True
    application: SparkApplication | None = None

    async def run_driver(self, spec: Spec, previous_report: Report | None, trust: CheckpointTrust | None = None) -> Outcome:
        raise NotImplementedError

    def set_deadline(self, deadline: float) -> None: ...

    def request_stop(self) -> None:
        self.commands.append("stop")

    def send_sigterm(self) -> None:
        self.commands.append("SIGTERM")

    def kill(self, cause: Outcome) -> None:
        self.commands.append("kill")

    def progress(self) -> Progress | None:
        return self.reported

    def save_session(self, session: SessionId) -> None: ...

    async def save_outcome(self, outcome: Outcome) -> None: ...


def escalation(driver: RecordingDriver, clock: SettableClock) -> StopEscalation:
    log: Log = SilentLog()
    stop = StopEscalation(driver, clock, TIMEOUTS, log)
    stop.request("stop")
    return stop


def test_driver_without_a_batch_duration_gets_sigterm_after_the_grace_period() -> None:
    driver, clock = RecordingDriver(), SettableClock()
    stop = escalation(driver, clock)
    clock.now += 59.9
    assert not stop.escalate() and driver.commands == ["stop"]
    clock.now += 0.2
    assert not stop.escalate() and driver.commands == ["stop", "SIGTERM"]
    clock.now += 10.0
    assert stop.escalate()


def test_real_time_batch_may_end_before_the_driver_gets_sigterm() -> None:
    driver, clock = RecordingDriver(batch_s=REAL_TIME_BATCH_S), SettableClock()
    stop = escalation(driver, clock)
    clock.now += REAL_TIME_BATCH_S + 59.9
    assert not stop.escalate() and driver.commands == ["stop"]
    clock.now += 0.2
    assert not stop.escalate() and driver.commands == ["stop", "SIGTERM"]


def test_script_cannot_extend_the_grace_period_after_the_stop_request() -> None:
    driver, clock = RecordingDriver(), SettableClock()
    stop = escalation(driver, clock)
    driver.batch_s = 86400.0
    clock.now += 70.0
    assert stop.escalate()


def test_new_version_without_a_batch_fails_its_trial_after_the_limit() -> None:
    driver, clock = RecordingDriver(), SettableClock()
    trial = Trial(driver, clock, on_trial=True)
    clock.now += 299.9
    assert trial.find_failure(300.0, had_batches=False) is None
    clock.now += 0.2
    assert trial.find_failure(300.0, had_batches=False) == "it completed no batch within 300 s" and not trial.proven


def test_real_time_version_gets_the_duration_of_its_batch_in_addition() -> None:
    driver, clock = RecordingDriver(batch_s=REAL_TIME_BATCH_S), SettableClock()
    trial = Trial(driver, clock, on_trial=True)
    clock.now += 599.9
    assert trial.find_failure(300.0, had_batches=False) is None and not trial.proven
    driver.reported = Progress(batch_id=0)
    assert trial.find_failure(300.0, had_batches=False) is None and trial.proven
    clock.now += 600.0
    assert trial.find_failure(300.0, had_batches=False) is None


def test_real_time_version_without_a_batch_fails_its_trial_in_the_end() -> None:
    driver, clock = RecordingDriver(batch_s=REAL_TIME_BATCH_S), SettableClock()
    trial = Trial(driver, clock, on_trial=True)
    clock.now += 600.1
    assert trial.find_failure(300.0, had_batches=False) == "it completed no batch within 600 s"


def test_batch_program_passes_its_trial_if_it_still_runs_after_the_limit() -> None:
    driver, clock = RecordingDriver(is_ready=True, has_queries=False), SettableClock()
    trial = Trial(driver, clock, on_trial=True)
    clock.now += 299.9
    assert trial.find_failure(300.0, had_batches=False) is None and not trial.proven, "it may still fail"
    clock.now += 0.2
    assert trial.find_failure(300.0, had_batches=False) is None and trial.proven


@pytest.mark.parametrize(
    ("is_ready", "has_queries", "had_batches"),
    [(False, False, False), (True, True, False), (True, False, True)],
    ids=["Spark never started", "its query has no batch", "the job had batches before"],
)
def test_version_without_a_batch_fails_if_it_should_have_one(is_ready: bool, has_queries: bool, had_batches: bool) -> None:
    driver, clock = RecordingDriver(is_ready=is_ready, has_queries=has_queries), SettableClock()
    trial = Trial(driver, clock, on_trial=True)
    clock.now += 300.1
    assert trial.find_failure(300.0, had_batches=had_batches) == "it completed no batch within 300 s"
    assert not trial.proven


def test_version_that_is_not_on_trial_never_fails_it() -> None:
    driver, clock = RecordingDriver(), SettableClock()
    trial = Trial(driver, clock, on_trial=False)
    clock.now += 10_000.0
    assert trial.find_failure(300.0, had_batches=False) is None and not trial.proven
    driver.reported = Progress(batch_id=0)
    assert trial.find_failure(300.0, had_batches=False) is None and trial.proven, "its first batch is recorded as well"
