"""An error in the decision about one job does not affect the other jobs."""

from dataclasses import replace

import pytest

from holdfast.errors import Refused
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, JobState, Outcome, Report, Spec
from holdfast.model.phase import Phase
from holdfast.plan import JobView, Launch, NodeView, Now, Snapshot, plan

BROKEN, WAITING, N1 = JobId("broken"), JobId("waiting"), NodeId("n1")
SPEC = Spec("words", "words.py", "0" * 64)
SNAPSHOT = Snapshot(
    Epoch(7),
    {
        BROKEN: JobView(
            BROKEN,
            replace(SPEC, restart="a strategy of a later release"),
            Desired.RUN,
            Attempt(1),
            JobState(Phase.RUNNING, "attempt 1 runs on n1", attempt=Attempt(1), node=N1),
            report=Report(Attempt(1), N1, started=1.0, dead=True, outcome=Outcome(Ending.FAILED, "exit code 1")),
        ),
        WAITING: JobView(WAITING, SPEC, Desired.RUN, Attempt(0), JobState(Phase.PENDING, "submitted")),
    },
    {N1: NodeView(N1, 4)},
)
NOW = Now(wall=1_000.0, boot=100.0)


def test_other_jobs_are_planned_if_the_decision_about_one_job_fails() -> None:
    errors: dict[JobId, Exception] = {}
    commands = plan(SNAPSHOT, NOW, on_error=errors.__setitem__)
    assert [(type(command), command.job) for command in commands] == [(Launch, WAITING)]
    assert list(errors) == [BROKEN]
    assert "a strategy of a later release" in str(errors[BROKEN])


def test_error_is_raised_without_a_listener() -> None:
    with pytest.raises(Refused, match="a strategy of a later release"):
        plan(SNAPSHOT, NOW)
