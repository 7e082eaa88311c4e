"""Earlier outcomes that ZooKeeper may lack, in arbitrary histories of a job's attempts."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Ending, Outcome, Report
from holdfast.model.unreported_outcome import UnreportedOutcome, find_unreported_outcome, first_unreported_attempt

N1 = NodeId("n1")
DRIVER_ENDINGS = [Ending.FINISHED, Ending.FAILED, Ending.KILLED, Ending.OUT_OF_MEMORY, Ending.DATA_LOSS]


def report(attempt: int, ending: Ending | None = None, *, first_unreported: int = 0, dead: bool = False) -> Report:
    outcome = Outcome(ending, "because") if ending is not None else None
    return Report(Attempt(attempt), N1, 1.0, outcome=outcome, dead=dead, first_unreported=Attempt(first_unreported))


@dataclass(frozen=True)
class Fate:
    """Course of one attempt."""

    until: str
    """Last step that it reaches."""
    ending: Ending = Ending.FINISHED
    """End of its driver."""
    reported: bool = True
    """True if its runner reports its outcome."""
    certified: bool = True
    """True if a node certifies the loss of an attempt that has reported nothing."""


@dataclass
class JobHistory:
    """Attempts of one job, with the records that they leave in ZooKeeper and in the checkpoint."""

    attempt: int = 0
    report: Report | None = None
    newest_claim: int = 0
    outcomes: dict[Attempt, Outcome] = field(default_factory=dict)
    driver_ends: dict[int, Ending] = field(default_factory=dict)
    reported_ends: list[int] = field(default_factory=list)
    """Attempts whose driver's end ZooKeeper has learned, in order, with repetitions."""

    @property
    def has_ended(self) -> bool:
        outcome = self.report.outcome if self.report is not None else None
        return outcome is not None and outcome.ending is Ending.FINISHED

    def untold(self) -> list[int]:
        return [attempt for attempt in self.driver_ends if attempt not in self.reported_ends]

    def run_attempt(self, fate: Fate) -> None:
        self.attempt += 1
        if fate.until == "assigned":
            return
        attempt = Attempt(self.attempt)
        first = first_unreported_attempt(self.report, is_scheduled=False) if self.report is not None else attempt
        self.report = report(attempt, first_unreported=first)
        outcome, reported_ends = self._execute(fate, attempt, first)
        if outcome is not None and fate.reported:
            self.report = report(attempt, outcome.ending, first_unreported=first)
            self.reported_ends += reported_ends
        elif fate.certified:
            self.report = report(attempt, Ending.LOST, first_unreported=first)

    def _execute(self, fate: Fate, attempt: Attempt, first: Attempt) -> tuple[Outcome | None, list[int]]:
        """Return the outcome, or None if the runner dies before, and the attempt whose driver's end it describes."""
        if fate.until == "lease":
            return None, []
        if fate.until == "missing":
            return Outcome(Ending.CHECKPOINT_DAMAGED, "it is not mounted"), []
        outcomes = {each: outcome for each, outcome in self.outcomes.items() if each >= first}
        found = find_unreported_outcome(outcomes, self.newest_claim)
        assert ([found.attempt] if found is not None else []) == self.untold(), "every untold end is found, and nothing else"
        if found is not None:
            return found.outcome, [found.attempt]
        if fate.until == "look":
            return Outcome(Ending.LOST, "the storage is unavailable"), []
        self.newest_claim = attempt
        if fate.until == "conflict":
            return Outcome(Ending.CHECKPOINT_CONFLICT, "a second driver wrote to it"), []
        if fate.until == "driver":
            return Outcome(Ending.STOPPED if fate.reported else Ending.LOST, "no end of its own"), []
        assert Ending.FINISHED not in self.driver_ends.values(), "a job that has finished runs again"
        self.driver_ends[attempt] = fate.ending
        self.outcomes[attempt] = Outcome(fate.ending, "the driver ended")
        return self.outcomes[attempt], [attempt]


fates = st.builds(
    Fate,
    st.sampled_from(["assigned", "lease", "missing", "look", "conflict", "driver", "end", "end"]),
    st.sampled_from(DRIVER_ENDINGS),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(fates, max_size=12))
@settings(max_examples=500)
def test_each_end_of_a_driver_is_reported_once_and_a_finished_job_never_runs_again(course: list[Fate]) -> None:
    history = JobHistory()
    for fate in course:
        if not history.has_ended:
            history.run_attempt(fate)
    assert len(set(history.reported_ends)) == len(history.reported_ends), "no failure counts twice"


@pytest.mark.parametrize("certified", [False, True])
def test_end_is_found_although_many_attempts_were_lost_before_they_looked(certified: bool) -> None:
    history = JobHistory()
    lost = [Fate("lease", certified=certified), Fate("assigned")] * 3
    for fate in (Fate("end", Ending.FINISHED, reported=False), *lost, Fate("end")):
        history.run_attempt(fate)
    assert history.has_ended
    assert (list(history.driver_ends), history.reported_ends) == ([1], [1])


def test_reported_failure_is_not_found_after_its_next_attempt_was_lost() -> None:
    history = JobHistory()
    for fate in (Fate("end", Ending.FAILED), Fate("lease"), Fate("end", Ending.FINISHED)):
        history.run_attempt(fate)
    assert (list(history.driver_ends), history.reported_ends) == ([1, 3], [1, 3])


@pytest.mark.parametrize(
    ("previous", "first"),
    [
        (report(5), 5),
        (report(5, Ending.LOST), 5),
        (report(5, Ending.STOPPED), 6),
        (report(5, Ending.FAILED), 6),
        (report(5, first_unreported=3), 3),
        (report(5, Ending.LOST, first_unreported=3), 3),
        (report(5, Ending.FAILED, first_unreported=3), 6),
        (report(5, Ending.CHECKPOINT_DAMAGED, first_unreported=3), 3),
        (report(5, Ending.CHECKPOINT_CONFLICT, first_unreported=3), 3),
    ],
)
def test_report_tells_which_outcomes_may_be_missing(previous: Report, first: int) -> None:
    """A report without the field comes from an earlier release, which looked only at the last attempt."""
    for is_scheduled in (False, True):
        assert first_unreported_attempt(previous, is_scheduled=is_scheduled) == first


@pytest.mark.parametrize(("is_scheduled", "first"), [(False, 1), (True, 5)])
def test_certificate_without_the_field_may_hide_the_outcome_of_any_attempt(is_scheduled: bool, first: int) -> None:
    """A node of an earlier release drops the field. In a job with a schedule, earlier outcomes belong to earlier runs."""
    certificate = report(5, Ending.LOST, dead=True)
    assert first_unreported_attempt(certificate, is_scheduled=is_scheduled) == first
    assert first_unreported_attempt(report(5, Ending.FAILED, dead=True), is_scheduled=is_scheduled) == 6


@pytest.mark.parametrize(("is_scheduled", "first"), [(False, 3), (True, 6)])
def test_job_that_has_finished_has_a_next_attempt_only_if_the_leader_decided_too_early(is_scheduled: bool, first: int) -> None:
    assert first_unreported_attempt(report(5, Ending.FINISHED, first_unreported=3), is_scheduled=is_scheduled) == first


def test_outcome_that_was_written_too_late_counts_only_if_the_job_has_finished() -> None:
    failed, finished = Outcome(Ending.FAILED, "x"), Outcome(Ending.FINISHED, "y")
    assert find_unreported_outcome({Attempt(1): failed}, newest_claim=2) is None
    assert find_unreported_outcome({Attempt(1): failed}, newest_claim=1) == UnreportedOutcome(Attempt(1), failed)
    assert find_unreported_outcome({Attempt(1): finished, Attempt(2): failed}, newest_claim=2) == (1, finished)
