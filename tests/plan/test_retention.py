"""What is kept of jobs that ended."""

from holdfast.model.identifiers import Attempt, Epoch, JobId
from holdfast.model.job import Event, State
from holdfast.model.phase import Phase
from holdfast.plan.retention import Keep, due


def ended(job: str, at: float) -> tuple[JobId, State]:
    event = Event(1, at, Phase.FINISHED, "done", Attempt(1), None, Epoch(1))
    return JobId(job), State(Phase.FINISHED, "done", events=(event,))


def test_what_ended_long_ago_goes_and_what_ended_lately_stays() -> None:
    assert due([ended("a", 10.0), ended("b", 95.0)], Keep(ended_s=50.0), 100.0) == ["a"]


def test_of_too_many_the_oldest_go() -> None:
    jobs = [ended("c", 97.0), ended("a", 99.0), ended("b", 98.0)]
    assert due(jobs, Keep(ended_s=50.0, ended_max=1), 100.0) == ["c", "b"]


def test_nothing_goes_that_need_not() -> None:
    assert due([ended("a", 99.0)], Keep(), 100.0) == []
