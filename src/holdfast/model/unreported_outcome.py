"""Outcomes in the checkpoint that ZooKeeper may lack: of which attempts, and which of them the next attempt reports. Pure."""

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from holdfast.model.identifiers import Attempt
from holdfast.model.job import NO_ATTEMPT, Ending, Outcome, Report

FIRST_ATTEMPT = Attempt(1)


class UnreportedOutcome(NamedTuple):
    attempt: Attempt
    outcome: Outcome


def covers_earlier_outcomes(outcome: Outcome) -> bool:
    """Return True if a report with this outcome shows that ZooKeeper lacks no outcome of this attempt and earlier ones.

    A runner looks for earlier outcomes before anything else and reports the one that it finds, so its own outcome covers them.
    LOST covers nothing: the runner may have been lost before it looked, and a death certificate says LOST even if the driver
    had ended by itself before. An attempt that the checkpoint has prevented may not have found it, or not been able to read it.
    """
    return outcome.ending is not Ending.LOST and not outcome.ending.concerns_checkpoint


def first_unreported_attempt(report: Report, *, is_scheduled: bool) -> Attempt:
    """Return the first attempt whose outcome ZooKeeper may lack after this report. `is_scheduled` is for a job with a schedule.

    A node of an earlier release that certifies a death drops the field. Any attempt may then be the first one. In a job with a
    schedule only the attempt of the report can be, because earlier outcomes belong to earlier runs.

    Without a schedule, a job that has finished has no next attempt. If there is one, the leader has decided before the node of
    the finished attempt has certified its death, for example because a user has forced a restart. The outcome is found again.
    """
    if report.outcome is not None and covers_earlier_outcomes(report.outcome):
        came_too_late = report.outcome.ending is Ending.FINISHED and not is_scheduled
        return (report.first_unreported or report.attempt) if came_too_late else Attempt(report.attempt + 1)
    is_dropped = report.first_unreported == NO_ATTEMPT and report.dead and not is_scheduled
    return FIRST_ATTEMPT if is_dropped else report.first_unreported or report.attempt


def find_unreported_outcome(outcomes: Mapping[Attempt, Outcome], newest_claim: int) -> UnreportedOutcome | None:
    """Return the outcome to report instead of starting the driver again, or None if there is none.

    `outcomes` are those in the checkpoint, from `first_unreported_attempt` on. An attempt claims the checkpoint after it has
    looked for outcomes, so an outcome before the newest claim was written too late and another driver has run since. Only
    FINISHED counts then: a job that has finished never runs again. Later outcomes repeat the first one.
    """
    attempts = sorted(outcomes)
    finished = (attempt for attempt in attempts if outcomes[attempt].ending is Ending.FINISHED)
    unclaimed = (attempt for attempt in attempts if attempt >= newest_claim)
    found = next(chain(finished, unclaimed), None)
    return None if found is None else UnreportedOutcome(found, outcomes[found])
