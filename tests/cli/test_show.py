"""`holdfast show`: finds a job by name, id or prefix, and says in the first line why the job does not run."""

import json
import time

import pytest

from holdfast.errors import Refused
from holdfast.model.identifiers import JobId
from holdfast.model.job import Progress, SparkApplication
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import Schedule
from holdfast.model.schedule.runs import RunOutcome, begin_history
from holdfast.zk.records.job_lookup import find_job
from holdfast.zk.session.client import Client
from tests.harness.command_line import error_message, run_command, run_json, run_ok
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real


def test_job_is_found_by_id_name_and_id_prefix(cluster: PreparedCluster) -> None:
    cluster.submit("j0123456789ab", name="words")
    cluster.submit("j0199456789ab", name="clicks")
    for text in ("j0123456789ab", "words", "j0123"):
        assert run_json(cluster, "show", text)["id"] == "j0123456789ab"


def test_ambiguous_id_prefix_is_refused_with_candidates(cluster: PreparedCluster) -> None:
    cluster.submit("j0123456789ab", name="words")
    cluster.submit("j0123956789ab", name="clicks")
    printed_text = error_message(run_command(cluster, "show", "j0123"))
    assert "j0123456789ab" in printed_text and "j0123956789ab" in printed_text
    assert "'j01' is ambiguous: it matches 2 jobs (j0123456789ab, j0123956789ab)" in error_message(
        run_command(cluster, "cancel", "j01")
    )


def test_short_unique_id_prefix_is_accepted_and_a_single_character_is_not(cluster: PreparedCluster) -> None:
    cluster.submit("j0123456789ab", name="words")
    cluster.submit("j1123456789ab", name="clicks")
    assert run_json(cluster, "show", "j1")["name"] == "clicks"
    assert "there is no job 'j'" in error_message(run_command(cluster, "show", "j"))


def test_unknown_job_name_suggests_similar_names(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="rate-to-parquet")
    cluster.submit("j2", name="words")
    cluster.write_state("j2", Phase.FINISHED, "over", attempt=1)
    assert "Did you mean 'words'?" in error_message(run_command(cluster, "show", "wrods"))
    assert "Did you mean 'rate-to-parquet'?" in error_message(run_command(cluster, "logs", "rate"))
    assert "Did you mean" not in error_message(run_command(cluster, "show", "xyzzy"))


def test_name_takes_precedence_over_id_prefix(cluster: PreparedCluster) -> None:
    cluster.submit("j0123456789ab", name="words")
    cluster.submit("jffff56789ab", name="j0123")
    assert run_json(cluster, "show", "j0123")["id"] == "jffff56789ab"
    cluster.write_state("jffff56789ab", Phase.FINISHED, "over", attempt=1)
    cluster.remove(cluster.paths.name("j0123"))
    assert run_json(cluster, "show", "j0123")["id"] == "jffff56789ab"  # even of a job that ended


def test_live_job_then_newest_ended_job_is_found_by_name(cluster: PreparedCluster) -> None:
    for id in ("j1", "j2"):
        cluster.submit(id, name="words")
        cluster.write_state(id, Phase.FAILED, "it failed", attempt=1)
        cluster.remove(cluster.paths.name("words"))
    assert run_json(cluster, "show", "words")["id"] == "j2"
    cluster.submit("j0", name="words")
    assert run_json(cluster, "show", "words")["id"] == "j0"


def test_isolation_level_of_a_running_driver_is_shown(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    cluster.write_state("j1", Phase.RUNNING, "attempt 1 runs on n1", attempt=1, node="n1")
    cluster.write_lease("j1")
    assert ["isolation", "namespace"] in [line.split() for line in run_ok(cluster, "show", "j1").splitlines()]
    assert run_json(cluster, "show", "j1")["isolation"] == "namespace"


def test_executors_of_an_application_on_a_cluster_are_shown(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    cluster.write_state("j1", Phase.RUNNING, "attempt 1 runs on n1", attempt=1, node="n1")
    cluster.write_lease("j1", application=SparkApplication("application_1_2", "RUNNING", 3, 2, 1, "Worker lost"))
    shown = run_ok(cluster, "show", "j1")
    assert "application_1_2, RUNNING in YARN" in shown
    assert "3 alive, 2 lost (last: Worker lost), 1 decommissioned" in shown
    assert run_json(cluster, "show", "j1")["spark"] == {
        "application": "application_1_2",
        "state": "RUNNING",
        "executors": 3,
        "executors_lost": 2,
        "executors_decommissioned": 1,
        "last_loss": "Worker lost",
    }


ODD = ["nope", "", " ", ".", "..", "a/b", "/", "../..", "ü", "a b", "j" * 300, "\x1b[31m", "\x00", "%s", "--", "\ud800"]


def test_any_unknown_job_name_is_one_sentence(cluster: PreparedCluster) -> None:
    cluster.submit("j1")

    async def find(client: Client) -> None:
        for text in ODD:
            with pytest.raises(Refused, match="there is no job"):
                await find_job(client, cluster.paths, text)

    cluster.run(find)


@pytest.mark.parametrize("command", ["show", "events", "logs", "stop", "cancel", "restart", "resume"])
def test_every_command_refuses_an_unknown_job_with_one_sentence(cluster: PreparedCluster, command: str) -> None:
    assert "there is no job '../ü \\x1b[31m'" in error_message(run_command(cluster, command, "--", "../ü \x1b[31m"))


def test_job_with_unusual_id_can_be_shown(cluster: PreparedCluster) -> None:
    cluster.put(cluster.paths.job(JobId("odd ünd one")), b"")
    assert "is not running" in run_ok(cluster, "show", "odd ünd one")


def test_unreadable_name_record_does_not_hide_its_job(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    cluster.put(cluster.paths.name("words"), b"\xff")
    assert run_json(cluster, "show", "words")["id"] == "j1"


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (Phase.PENDING, "waiting for free slots: the job needs 9 slots, but the largest node has 4"),
        (Phase.PARKED, "a user stopped the job; 'holdfast resume' continues it, 'holdfast cancel' ends it"),
        (Phase.BACKOFF, "the driver failed; next attempt in 30 s"),
    ],
)
def test_first_line_says_why_a_job_does_not_run(cluster: PreparedCluster, phase: Phase, reason: str) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", phase, reason, attempt=1)
    first = run_ok(cluster, "show", "words").splitlines()[0]
    assert first.startswith(f"words (j1) is not running: {phase} for ")
    assert first.endswith(reason)


def test_first_line_says_where_a_job_runs_and_when_its_attempt_started(cluster: PreparedCluster) -> None:
    cluster.add_node("n1")
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.RUNNING, "attempt 2 runs on n1", attempt=2, node="n1")
    cluster.write_lease("j1", attempt=2, progress=Progress(4, 1234.0))
    cluster.write_report("j1", attempt=2)
    first = run_ok(cluster, "show", "words").splitlines()[0]
    assert first.startswith("words (j1) is running on n1: attempt 2, started ")
    assert first.endswith(" ago), batch 4, 1,234 rows/s")


def test_first_line_says_how_a_job_ended(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.FAILED, "the driver failed", attempt=1)
    assert run_ok(cluster, "show", "words").splitlines()[0].startswith("words (j1) ended: FAILED ")


def test_ended_job_shows_neither_desired_state_nor_expectations(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    assert "  desired    run\n" in run_ok(cluster, "show", "words")
    cluster.write_state("j1", Phase.FINISHED, "it came to its end", attempt=1)
    shown = run_ok(cluster, "show", "words")
    assert "desired" not in shown and "yet" not in shown
    assert "the job has written no checkpoint" in shown


def test_offsets_of_several_queries_are_named(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    cluster.write_state("j1", Phase.RUNNING, "it runs", attempt=1)
    cluster.write_lease("j1", progress=Progress(offsets=("5", "7"), offset_queries=("alpha", "beta")))
    shown = run_ok(cluster, "show", "j1")
    assert "  offsets    alpha: 5\n  offsets    beta: 7\n" in shown
    cluster.write_lease("j1", progress=Progress(offsets=("5", "7")))
    assert "  offsets    5\n  offsets    7\n" in run_ok(cluster, "show", "j1")


def test_missing_node_is_remarked(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    cluster.write_state("j1", Phase.RUNNING, "attempt 1 runs on n9", attempt=1, node="n9")
    cluster.write_lease("j1", node="n9")
    assert "node n9 is not reachable" in run_ok(cluster, "show", "j1")


def test_json_contains_spec_and_events(cluster: PreparedCluster) -> None:
    cluster.submit("j1", arguments=("--in", "a b", "ü"))
    cluster.write_state("j1", Phase.PENDING, "no room")
    reported = run_json(cluster, "show", "j1")
    assert reported["spec"]["arguments"] == ["--in", "a b", "ü"]
    assert reported["events"][0]["phase"] == "PENDING"
    assert "words.py --in 'a b' 'ü'" in run_ok(cluster, "show", "j1")


def test_events_of_all_jobs_are_merged_by_time_and_limited_to_the_last(cluster: PreparedCluster) -> None:
    for id in ("j3", "j1", "j2"):
        cluster.submit(id)
        cluster.write_state(id, Phase.PENDING, f"about {id}")
    reported = json.loads(run_ok(cluster, "events", "--json"))
    assert [event["job"] for event in reported] == ["j3", "j1", "j2"]
    assert list(reported[0]) == ["time", "job", "name", "number", "phase", "reason", "attempt", "node", "epoch"]
    assert [event["job"] for event in run_json(cluster, "events", "--limit", "1")] == ["j2"]
    assert [event["job"] for event in run_json(cluster, "events", "j1")] == ["j1"]
    assert "about j3" in run_ok(cluster, "events")


def test_job_without_events_is_shown(cluster: PreparedCluster) -> None:
    assert run_json(cluster, "events") == []
    assert "no events yet" in run_ok(cluster, "events")
    assert "no jobs" in run_ok(cluster, "ls")


def test_note_of_running_attempt_is_shown_before_the_leader_reads_it(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    cluster.write_state("j1", Phase.RUNNING, "attempt 1 runs on n1", attempt=1)
    cluster.write_lease("j1", note="Kafka: orders: no broker describes this topic")
    assert run_json(cluster, "show", "j1")["reason"] == "attempt 1 runs on n1; Kafka: orders: no broker describes this topic"


def test_lag_is_shown_by_topic_with_worst_partitions(cluster: PreparedCluster) -> None:
    behind = Progress(lag=('{"orders": {"0": 0, "1": 1500, "2": 7}}', "not JSON"))
    cluster.submit("j1")
    cluster.write_state("j1", Phase.RUNNING, "it runs", attempt=1)
    cluster.write_lease("j1", progress=behind)
    assert "orders: 1,507 records behind (partition 1: 1,500, 2: 7)\n" in run_ok(cluster, "show", "j1")
    cluster.submit("j2")
    cluster.write_state("j2", Phase.PARKED, "it is parked", attempt=1)
    cluster.write_report("j2", progress=behind)
    assert "orders: 1,507 records behind (partition 1: 1,500, 2: 7), when the job last ran\n" in run_ok(cluster, "show", "j2")


def test_misspelled_command_suggests_the_right_one(cluster: PreparedCluster) -> None:
    assert "Did you mean 'show'?" in run_command(cluster, "shwo", "j1").stderr
    assert "No such command 'xyzzy'.\n" in run_command(cluster, "xyzzy").stderr


def test_scheduled_job_shows_its_schedule_and_its_runs(cluster: PreparedCluster) -> None:
    schedule = Schedule(3600.0)
    cluster.submit("j1", name="report", schedule=schedule)
    at = time.time() - 3 * 3600
    runs = (
        begin_history(schedule, at).open_run(at).start_attempt(1, at).end_run(RunOutcome.FINISHED, "", now=at + 65, batch_id=4)
    )
    runs = runs.open_run(at + 3600, skipped=2).start_attempt(2, at + 3700).start_attempt(3, at + 3750)
    runs = runs.end_run(RunOutcome.FAILED, "the script raised\x1b[31m an error", now=at + 3800, batch_id=None)
    cluster.write_state("j1", Phase.SCHEDULED, "run 2 failed; next run later", attempt=3, runs=runs, not_before=at + 7200)
    shown = run_ok(cluster, "show", "report")
    assert "schedule   every 1h, catch-up: one" in shown
    first, second = [line for line in shown.splitlines() if "took" in line]
    assert first.split("finished")[1].strip() == "took 65 s; attempt 1; 5 batches"
    assert "attempts 2 to 3; 2 runs skipped before it; the script raised" in second and "\x1b" not in second
    view = run_json(cluster, "show", "report")
    assert [(run["number"], run["outcome"], run["attempts"], run["batches"]) for run in view["runs"]] == [
        (1, "finished", 1, 5),
        (2, "failed", 2, None),
    ]
    assert view["schedule"]["last_run"] == view["runs"][-1]
    assert view["schedule"]["next_run_at"] is not None
    (listed,) = run_json(cluster, "ls")
    assert listed["schedule"] == view["schedule"]
    assert "run 2 failed; next run later" in run_ok(cluster, "ls")
