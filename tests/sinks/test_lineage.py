"""Lineage: a job that continues another job's checkpoint continues its outputs, and supersedes it there."""

from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.sinks.batch_identity import fencing_token, lineage_owner
from holdfast.sinks.batch_ledger import (
    BatchIdentity,
    OutputRecord,
    OwnedByOther,
    Owner,
    SkipBatch,
    SupersededBy,
    WriteBatch,
    decide_batch,
)
from holdfast.sinks.refusal_message import refusal_error

FIRST = DriverEnvironment.from_variables({"HOLDFAST_JOB": "j1", "HOLDFAST_ATTEMPT": "7"})
SECOND = DriverEnvironment.from_variables({"HOLDFAST_JOB": "j2", "HOLDFAST_ATTEMPT": "1", "HOLDFAST_ANCESTORS": "j1"})
THIRD = DriverEnvironment.from_variables({"HOLDFAST_JOB": "j3", "HOLDFAST_ATTEMPT": "1", "HOLDFAST_ANCESTORS": "j2,j1"})
UNRELATED = DriverEnvironment.from_variables({"HOLDFAST_JOB": "j9", "HOLDFAST_ATTEMPT": "99"})


def make_batch(environment: DriverEnvironment, id: int, digest: str = "d") -> BatchIdentity:
    return BatchIdentity(Owner(lineage_owner(environment), "q"), fencing_token(environment), id, digest)


def make_record(environment: DriverEnvironment, next_id: int) -> OutputRecord:
    return OutputRecord(Owner(lineage_owner(environment), "q"), fencing_token(environment), next_id, {next_id - 1: "d"})


def test_continuing_job_writes_the_next_batch_and_skips_existing_ones() -> None:
    assert decide_batch(make_record(FIRST, 5), make_batch(SECOND, 5)) == WriteBatch()
    assert decide_batch(make_record(FIRST, 5), make_batch(SECOND, 4)) == SkipBatch()
    assert decide_batch(make_record(SECOND, 5), make_batch(THIRD, 5)) == WriteBatch()


def test_preceding_job_is_superseded_regardless_of_its_attempt_number() -> None:
    decision = decide_batch(make_record(SECOND, 5), make_batch(FIRST, 5))
    assert decision == SupersededBy(fencing_token(SECOND))
    assert isinstance(decision, SupersededBy)
    sentence = str(refusal_error(decision, make_batch(FIRST, 5), "/out"))
    assert "a job that continues this job's checkpoint has taken over /out, so attempt 7 no longer writes to it" in sentence


def test_unrelated_job_is_refused() -> None:
    assert isinstance(decide_batch(make_record(SECOND, 5), make_batch(UNRELATED, 5)), OwnedByOther)
