"""Finding a job by what people call it, and the first line that answers why it does not run."""

import json

import pytest

from holdfast.errors import Refused
from holdfast.model.identifiers import JobId
from holdfast.model.job import Progress
from holdfast.model.phase import Phase
from holdfast.zk.records.job_reader import find_job
from holdfast.zk.session.client import Client
from tests.harness.command_line import answer, asked, refusal, run
from tests.harness.prepared_cluster import LaidOut

pytestmark = pytest.mark.real


def test_a_job_is_found_by_id_name_and_the_beginning_of_its_id(cluster: LaidOut) -> None:
    cluster.submit("j0123456789ab", name="words")
    cluster.submit("j0199456789ab", name="clicks")
    for text in ("j0123456789ab", "words", "j0123"):
        assert asked(cluster, "show", text)["id"] == "j0123456789ab"


def test_a_beginning_that_fits_several_is_refused_and_lists_them(cluster: LaidOut) -> None:
    cluster.submit("j0123456789ab", name="words")
    cluster.submit("j0123956789ab", name="clicks")
    said = refusal(run(cluster, "show", "j0123"))
    assert "j0123456789ab" in said and "j0123956789ab" in said
    assert "there is no job 'j01'" in refusal(run(cluster, "cancel", "j01"))  # too short to be meant


def test_a_name_comes_before_the_beginning_of_an_id(cluster: LaidOut) -> None:
    cluster.submit("j0123456789ab", name="words")
    cluster.submit("jffff56789ab", name="j0123")
    assert asked(cluster, "show", "j0123")["id"] == "jffff56789ab"
    cluster.settle("jffff56789ab", Phase.FINISHED, "over", attempt=1)
    cluster.remove(cluster.paths.name("j0123"))
    assert asked(cluster, "show", "j0123")["id"] == "jffff56789ab"  # even of a job that ended


def test_of_jobs_that_ended_under_one_name_the_newest_is_found_and_a_live_one_before_them(cluster: LaidOut) -> None:
    for id in ("j1", "j2"):
        cluster.submit(id, name="words")
        cluster.settle(id, Phase.FAILED, "it failed", attempt=1)
        cluster.remove(cluster.paths.name("words"))
    assert asked(cluster, "show", "words")["id"] == "j2"
    cluster.submit("j0", name="words")
    assert asked(cluster, "show", "words")["id"] == "j0"


ODD = ["nope", "", " ", ".", "..", "a/b", "/", "../..", "ü", "a b", "j" * 300, "\x1b[31m", "\x00", "%s", "--", "\ud800"]


def test_whatever_somebody_calls_a_job_that_is_not_there_is_a_sentence(cluster: LaidOut) -> None:
    cluster.submit("j1")

    async def find(client: Client) -> None:
        for text in ODD:
            with pytest.raises(Refused, match="there is no job"):
                await find_job(client, cluster.paths, text)

    cluster.run(find)


@pytest.mark.parametrize("command", ["show", "events", "logs", "stop", "cancel", "restart", "resume"])
def test_a_job_that_is_not_there_is_one_sentence_of_every_command(cluster: LaidOut, command: str) -> None:
    assert "there is no job '../ü \\x1b[31m'" in refusal(run(cluster, command, "--", "../ü \x1b[31m"))


def test_a_job_with_an_odd_id_can_be_shown(cluster: LaidOut) -> None:
    cluster.put(cluster.paths.job(JobId("odd ünd one")), b"")
    assert "does not run" in answer(cluster, "show", "odd ünd one")


def test_a_name_that_cannot_be_read_does_not_hide_its_job(cluster: LaidOut) -> None:
    cluster.submit("j1", name="words")
    cluster.put(cluster.paths.name("words"), b"\xff")
    assert asked(cluster, "show", "words")["id"] == "j1"


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (Phase.PENDING, "waiting for room: it wants 9 slots, and the largest node has 4"),
        (Phase.PARKED, "a person stopped it; 'resume' starts it again, 'cancel' ends it"),
        (Phase.BACKOFF, "the driver failed; again in 30 s"),
    ],
)
def test_the_first_line_says_why_a_job_does_not_run(cluster: LaidOut, phase: Phase, reason: str) -> None:
    cluster.submit("j1", name="words")
    cluster.settle("j1", phase, reason, attempt=1)
    first = answer(cluster, "show", "words").splitlines()[0]
    assert first.startswith(f"words (j1) does not run: {phase} for ")
    assert first.endswith(reason)


def test_the_first_line_says_where_and_since_when_it_runs(cluster: LaidOut) -> None:
    cluster.node("n1")
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    cluster.lease("j1", attempt=2, progress=Progress(4, 1234.0))
    cluster.report("j1", attempt=2)
    first = answer(cluster, "show", "words").splitlines()[0]
    assert first.startswith("words (j1) runs on n1 since ")
    assert first.endswith("attempt 2, batch 4, 1,234 rows/s")


def test_the_first_line_says_how_it_ended(cluster: LaidOut) -> None:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.FAILED, "the driver failed", attempt=1)
    assert answer(cluster, "show", "words").splitlines()[0].startswith("words (j1) ended: FAILED ")


def test_a_node_that_is_away_is_remarked(cluster: LaidOut) -> None:
    cluster.submit("j1")
    cluster.settle("j1", Phase.RUNNING, "attempt 1 runs on n9", attempt=1, node="n9")
    cluster.lease("j1", node="n9")
    assert "node n9 is not there" in answer(cluster, "show", "j1")


def test_show_tells_the_spec_and_the_events_to_scripts_too(cluster: LaidOut) -> None:
    cluster.submit("j1", arguments=("--in", "a b", "ü"))
    cluster.settle("j1", Phase.PENDING, "no room")
    told = asked(cluster, "show", "j1")
    assert told["spec"]["arguments"] == ["--in", "a b", "ü"]
    assert told["events"][0]["phase"] == "PENDING"
    assert "words.py --in 'a b' 'ü'" in answer(cluster, "show", "j1")


def test_events_of_all_jobs_are_merged_by_time_and_limited_to_the_last(cluster: LaidOut) -> None:
    for id in ("j3", "j1", "j2"):
        cluster.submit(id)
        cluster.settle(id, Phase.PENDING, f"about {id}")
    told = json.loads(answer(cluster, "events", "--json"))
    assert [event["job"] for event in told] == ["j3", "j1", "j2"]
    assert list(told[0]) == ["time", "job", "name", "number", "phase", "reason", "attempt", "node", "epoch"]
    assert [event["job"] for event in asked(cluster, "events", "--limit", "1")] == ["j2"]
    assert [event["job"] for event in asked(cluster, "events", "j1")] == ["j1"]
    assert "about j3" in answer(cluster, "events")


def test_no_events_are_no_reason_to_fail(cluster: LaidOut) -> None:
    assert asked(cluster, "events") == []
    assert "nothing has happened" in answer(cluster, "events")
    assert "no live jobs" in answer(cluster, "ls")


def test_what_a_living_attempt_has_to_say_is_the_reason_before_a_leader_has_looked(cluster: LaidOut) -> None:
    cluster.submit("j1")
    cluster.settle("j1", Phase.RUNNING, "attempt 1 runs on n1", attempt=1)
    cluster.lease("j1", note="Kafka: orders: no broker tells of it")
    assert asked(cluster, "show", "j1")["reason"] == "attempt 1 runs on n1; Kafka: orders: no broker tells of it"


def test_how_far_a_job_is_behind_is_told_by_topic_and_with_its_worst_partitions(cluster: LaidOut) -> None:
    behind = Progress(lag=('{"orders": {"0": 0, "1": 1500, "2": 7}}', "not JSON"))
    cluster.submit("j1")
    cluster.settle("j1", Phase.RUNNING, "it runs", attempt=1)
    cluster.lease("j1", progress=behind)
    assert "orders: 1,507 records behind (partition 1: 1,500, 2: 7)\n" in answer(cluster, "show", "j1")
    cluster.submit("j2")
    cluster.settle("j2", Phase.PARKED, "it is parked", attempt=1)
    cluster.report("j2", progress=behind)
    assert "orders: 1,507 records behind (partition 1: 1,500, 2: 7), when it last ran\n" in answer(cluster, "show", "j2")


def test_a_command_with_a_typing_error_is_answered_with_the_one_that_was_meant(cluster: LaidOut) -> None:
    assert "Did you mean 'show'?" in run(cluster, "shwo", "j1").stderr
    assert "No such command 'xyzzy'.\n" in run(cluster, "xyzzy").stderr
