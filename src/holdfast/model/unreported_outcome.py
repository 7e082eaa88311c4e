"""Outcomes in the checkpoint that ZooKeeper may lack: of which attempts, and which of them the next attempt reports. Pure."""

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from holdfast.model.identifiers import Attempt
from holdfast.model.job import Ending, Outcome, Report


class UnreportedOutcome(NamedTuple):
    attempt: Attempt
    outcome: Outcome


def first_unreported_attempt(report: Report) -> Attempt:
    """Return the first attempt whose outcome ZooKeeper may lack after this report.

    A runner looks for earlier outcomes before anything else and reports the one that it finds, so its own outcome covers them.
    LOST covers nothing: the runner may have been lost before it looked, and a death certificate says LOST even if the driver
    had ended by itself before.
    """
    if report.outcome is not None and report.outcome.ending is not Ending.LOST:
        return Attempt(report.attempt + 1)
    return report.first_unreported or report.attempt


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
