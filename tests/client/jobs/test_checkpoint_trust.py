"""`resume --trust-checkpoint`: written records, refusals, and records of earlier releases."""

import asyncio
import json
from dataclasses import replace

import pytest

from holdfast.client.jobs.job_control import ControlRequest, decide_restart, decide_resume, decide_stop, decide_trusted_resume
from holdfast.client.jobs.job_json import job_as_json
from holdfast.errors import Refused
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, DesiredRecord, Ending, JobState, Outcome, Report, Spec
from holdfast.model.phase import Phase
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.records.submission import submit
from holdfast.zk.records.upgrade import upgrade
from tests.harness.znodes import InMemoryZnodes

JOB = JobId("j1")
PATHS = Paths("default")
DESIRED = PATHS.job(JOB, "desired")
DAMAGED = Outcome(Ending.CHECKPOINT_DAMAGED, "the checkpoint cannot be trusted", ("a1", "b2"))
PARKED = JobState(Phase.PARKED, DAMAGED.reason, attempt=Attempt(2))
TRUST = CheckpointTrust("ada@laptop", "the backup cut off commits/2", 1000.0, ("a1", "b2"))


def parked_job(outcome: Outcome = DAMAGED, phase: Phase = Phase.PARKED) -> StoredJob:
    report = Report(Attempt(2), NodeId("n1"), 900.0, outcome=outcome, dead=True)
    return StoredJob(JOB, "words", 0, state=replace(PARKED, phase=phase), report=report)


async def cluster_with_parked_job() -> InMemoryZnodes:
    client = InMemoryZnodes()
    for path in PATHS.required_znodes:
        client.put(path)
    await submit(client, PATHS, Spec(name="words", script="words.py", blob="0" * 64), job=JOB, request="r1")
    client.put(PATHS.job(JOB, "state"), encode(PARKED))
    client.put(PATHS.job(JOB, "report"), encode(Report(Attempt(2), NodeId("n1"), 900.0, outcome=DAMAGED, dead=True)))
    return client


def desired_record(client: InMemoryZnodes) -> DesiredRecord:
    return decode(DesiredRecord, client.znodes[DESIRED].data, where=DESIRED)


def trusted_resume(job: StoredJob) -> object:
    return decide_trusted_resume(job, by=TRUST.by, reason="  the backup\ncut off commits/2 ", now=TRUST.wall)


def test_trust_names_the_person_the_reason_and_the_findings_and_survives_later_requests() -> None:
    async def main() -> None:
        client = await cluster_with_parked_job()
        request = ControlRequest(
            PATHS, "words", lambda job: decide_trusted_resume(job, by=TRUST.by, reason=TRUST.reason, now=TRUST.wall)
        )
        result = await request.run(client)
        assert result.effect == "is parked because of 2 findings, which you trust, and starts again"
        assert desired_record(client) == DesiredRecord(Desired.RUN, trust=TRUST)
        for decide in (decide_stop, decide_resume, lambda job: decide_restart(job, force=False)):
            await ControlRequest(PATHS, "words", decide).run(client)
        await upgrade(client, PATHS, JOB, lambda spec: replace(spec, blob="1" * 64), trial_s=30.0)
        assert desired_record(client) == DesiredRecord(Desired.RUN, version=2, trial_s=30.0, trust=TRUST)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (parked_job(Outcome(Ending.DATA_LOSS, "offsets are out of range")), "is not parked because of a damaged checkpoint"),
        (parked_job(phase=Phase.RUNNING), "is not parked because of a damaged checkpoint"),
        (parked_job(replace(DAMAGED, findings=())), "are not recorded: there are more than 2,000, or a node of an earlier"),
        (parked_job(phase=Phase.CANCELLED), "has already ended"),
    ],
    ids=["another reason", "running", "earlier release", "cancelled"],
)
def test_trust_is_refused_without_recorded_findings_of_a_parked_job(job: StoredJob, message: str) -> None:
    with pytest.raises(Refused, match=message):
        trusted_resume(job)


def test_json_has_the_trust() -> None:
    job = replace(parked_job(), desired_record=DesiredRecord(Desired.RUN, trust=TRUST))
    assert job_as_json(job)["checkpoint_trust"] == {
        "by": "ada@laptop",
        "time": "1970-01-01T00:16:40.000Z",
        "reason": "the backup cut off commits/2",
        "findings": 2,
    }
    assert job_as_json(parked_job())["checkpoint_trust"] is None


def test_records_of_earlier_releases_have_no_trust_and_no_findings() -> None:
    desired = json.loads(encode(DesiredRecord(Desired.RUN, trust=TRUST)))
    assert decode(DesiredRecord, json.dumps(desired).encode(), where="desired").trust == TRUST
    del desired["trust"]
    assert decode(DesiredRecord, json.dumps(desired).encode(), where="desired") == DesiredRecord(Desired.RUN)
    outcome = json.loads(encode(DAMAGED))
    del outcome["findings"]
    assert decode(Outcome, json.dumps(outcome).encode(), where="outcome") == replace(DAMAGED, findings=())
