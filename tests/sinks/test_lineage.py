"""A job that goes on from another's checkpoint goes on with its outputs, and supersedes it there."""

from holdfast.driver_protocol.environment import Environment
from holdfast.sinks.batch_identity import fence, lineage
from holdfast.sinks.batch_ledger import Batch, Foreign, Owner, Recorded, Skip, Superseded, Write, decide
from holdfast.sinks.refusal_message import refused

FIRST = Environment.read({"HOLDFAST_JOB": "j1", "HOLDFAST_ATTEMPT": "7"})
SECOND = Environment.read({"HOLDFAST_JOB": "j2", "HOLDFAST_ATTEMPT": "1", "HOLDFAST_ANCESTORS": "j1"})
THIRD = Environment.read({"HOLDFAST_JOB": "j3", "HOLDFAST_ATTEMPT": "1", "HOLDFAST_ANCESTORS": "j2,j1"})
STRANGER = Environment.read({"HOLDFAST_JOB": "j9", "HOLDFAST_ATTEMPT": "99"})


def batch(environment: Environment, id: int, digest: str = "d") -> Batch:
    return Batch(Owner(lineage(environment), "q"), fence(environment), id, digest)


def recorded(environment: Environment, next_id: int) -> Recorded:
    return Recorded(Owner(lineage(environment), "q"), fence(environment), next_id, {next_id - 1: "d"})


def test_the_job_that_goes_on_writes_the_next_batch_and_skips_what_is_there() -> None:
    assert decide(recorded(FIRST, 5), batch(SECOND, 5)) == Write()
    assert decide(recorded(FIRST, 5), batch(SECOND, 4)) == Skip()
    assert decide(recorded(SECOND, 5), batch(THIRD, 5)) == Write()


def test_the_job_before_it_is_superseded_whatever_its_attempts_were() -> None:
    decision = decide(recorded(SECOND, 5), batch(FIRST, 5))
    assert decision == Superseded(fence(SECOND))
    assert isinstance(decision, Superseded)
    sentence = str(refused(decision, batch(FIRST, 5), "/out"))
    assert "a job that goes on from this one has taken over /out, so attempt 7 writes nothing more there" in sentence


def test_a_stranger_stays_one() -> None:
    assert isinstance(decide(recorded(SECOND, 5), batch(STRANGER, 5)), Foreign)
