"""Listing jobs: every job has a row, whatever state it is in."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from holdfast.model.codec import encode
from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.job import Progress, Spec
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import Schedule
from holdfast.zk.records.job_reader import read_jobs
from holdfast.zk.records.submission import submit
from holdfast.zk.session.client import Client
from tests.harness.command_line import error_message, run_command, run_json, run_ok
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real

KEYS = [
    "id",
    "name",
    "phase",
    "reason",
    "attempt",
    "restarts",
    "node",
    "driver_pid",
    "isolation",
    "spark",
    "progress",
    "submitted_at",
    "desired",
    "checkpoint_trust",
    "schedule",
]
GARBAGE = [b"", b"\x00\xff noise", b"{}", b"[1]", b'{"schema":1}', b"[" * 50_000, b'{"schema":99}']
MANY = 1000
PRINT_MODULES = """
import atexit, sys
from holdfast.cli.main import main

atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv[0] = "holdfast"
main()
"""
SLOW_MODULES = {
    "asyncio",
    "concurrent.futures",
    "email",
    "hashlib",
    "holdfast.config",
    "holdfast.model.schedule.cron",
    "http.client",
    "kazoo",
    "logging",
    "pyspark",
    "random",
    "rich",
    "ssl",
    "starlette",
    "structlog",
    "subprocess",
    "tempfile",
    "zoneinfo",
}
"""Modules that a listing does not need. Each of them takes milliseconds to import, most of them with others."""


def test_running_job_has_the_documented_json_keys(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.RUNNING, "attempt 3 runs on n1", attempt=3, node="n1", restarts=2)
    cluster.write_lease("j1", attempt=3, progress=Progress(7, 12.5, ('{"t":{"0":5}}', "not JSON", "NaN")))
    (job,) = run_json(cluster, "ls")
    assert list(job) == KEYS
    submitted = job.pop("submitted_at")
    assert len(submitted) == len("2026-11-15T22:35:02.123Z") and submitted.endswith("Z")
    assert job == {
        "id": "j1",
        "name": "words",
        "phase": "RUNNING",
        "reason": "attempt 3 runs on n1",
        "attempt": 3,
        "restarts": 2,
        "node": "n1",
        "driver_pid": 12,
        "isolation": "namespace",
        "spark": None,
        "progress": {"batch_id": 7, "rows_per_second": 12.5, "offsets": [{"t": {"0": 5}}, "not JSON", "NaN"], "lag": []},
        "desired": "run",
        "checkpoint_trust": None,
        "schedule": None,
    }


def test_submitted_job_has_the_documented_json_keys(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    (job,) = run_json(cluster, "ls")
    assert list(job) == KEYS
    assert job["phase"] == "PENDING"
    assert job["progress"] == {"batch_id": None, "rows_per_second": None, "offsets": [], "lag": []}
    assert job["node"] is job["driver_pid"] is job["isolation"] is None


@pytest.mark.parametrize("part", ["spec", "desired", "state", "lease", "report"])
def test_job_of_a_newer_schema_says_that_this_version_does_not_change_it(cluster: PreparedCluster, part: str) -> None:
    cluster.submit("j1")
    cluster.write_state("j1", Phase.RUNNING, "attempt 1 runs on n1", attempt=1, node="n1")
    cluster.write_lease("j1", attempt=1)
    cluster.write_report("j1")
    cluster.put(cluster.paths.job(JobId("j1"), part), b'{"schema":3,"fields":"unknown"}')
    expected = f"the job's {part} was written by a later Holdfast (schema 3); this version reads up to schema 2 and does not"
    (job,) = run_json(cluster, "ls")
    assert expected in job["reason"] and "upgrade this node" in job["reason"]
    assert expected in " ".join(run_ok(cluster, "show", "j1").split())


def test_nan_and_infinity_are_null_in_json(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    cluster.write_state("j1", Phase.RUNNING, "runs", attempt=1, node="n1")
    cluster.write_lease("j1", progress=Progress(1, float("nan")))
    done = run_command(cluster, "ls", "--json")
    assert "NaN" not in done.stdout
    assert json.loads(done.stdout)[0]["progress"]["rows_per_second"] is None


def test_last_progress_is_shown_while_a_job_does_not_run(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    cluster.write_state("j1", Phase.PARKED, "stopped", attempt=1)
    cluster.write_report("j1", progress=Progress(9, 100.0))
    (job,) = run_json(cluster, "ls")
    assert job["progress"]["batch_id"] == 9
    assert job["progress"]["rows_per_second"] is None


def test_ended_jobs_are_listed_with_all(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="live")
    cluster.submit("j2", name="over")
    cluster.write_state("j2", Phase.FINISHED, "it came to its end", attempt=1)
    assert [job["name"] for job in run_json(cluster, "ls")] == ["live"]
    assert [job["name"] for job in run_json(cluster, "ls", "--all")] == ["live", "over"]


def test_number_of_hidden_ended_jobs_is_on_stderr_only(cluster: PreparedCluster) -> None:
    cluster.submit("j1", name="over")
    cluster.write_state("j1", Phase.FINISHED, "it came to its end", attempt=1)
    done = run_command(cluster, "ls")
    assert done.stdout == "no jobs\n"
    assert "1 ended job is not listed; 'holdfast ls --all' lists it" in done.stderr
    cluster.submit("j2", name="over-too")
    cluster.write_state("j2", Phase.FAILED, "it failed", attempt=1)
    assert "2 ended jobs are not listed; 'holdfast ls --all' lists them" in run_command(cluster, "ls").stderr
    assert "not listed" not in run_command(cluster, "ls", "--all").stderr
    assert "not listed" not in run_command(cluster, "ls", "--json").stderr


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("part", ["spec", "desired", "state", "lease", "report"])
def test_malformed_record_of_one_job_leaves_others_readable(cluster: PreparedCluster, part: str, garbage: bytes) -> None:
    for job in ("j1", "j2"):
        cluster.submit(job, name=f"n-{job}")
        cluster.write_state(job, Phase.RUNNING, "runs", attempt=1, node="n1")
        cluster.write_lease(job)
    cluster.put(cluster.paths.job(JobId("j1"), part), garbage)
    broken, whole = run_json(cluster, "ls")
    assert (broken["name"], broken["id"]) == ("n-j1", "j1")
    assert list(broken) == KEYS
    assert whole["phase"] == "RUNNING" and whole["reason"] == "runs"
    if part == "report" and not garbage:
        assert broken["reason"] == "runs"  # which is how a report looks before the first attempt
    else:
        assert f"the job's {part} " in broken["reason"]
    assert broken["phase"] == ("?" if part == "state" else "RUNNING")


@pytest.mark.parametrize("command", [["ls"], ["ls", "--all"], ["events"], ["cluster"], ["show"]], ids=" ".join)
def test_every_command_tolerates_malformed_records(cluster: PreparedCluster, command: list[str]) -> None:
    parts = ["spec", "desired", "state", "lease", "report"]
    for part in parts:
        cluster.submit(f"j-{part}")
        cluster.write_state(f"j-{part}", Phase.RUNNING, "runs", attempt=1, node="n1")
        cluster.put(cluster.paths.job(JobId(f"j-{part}"), part), b"\x00\xff noise")
    for job in [f"j-{part}" for part in parts] if command == ["show"] else [None]:
        assert run_command(cluster, *command, *([job] if job is not None else [])).returncode == 0


@pytest.mark.parametrize("part", ["spec", "desired", "state"])
def test_missing_record_is_reported(cluster: PreparedCluster, part: str) -> None:
    cluster.submit("j1")
    cluster.remove(cluster.paths.job(JobId("j1"), part))
    (job,) = run_json(cluster, "ls")
    assert f"the job has no {part} znode" in job["reason"]


def test_job_without_records_is_listed(cluster: PreparedCluster) -> None:
    cluster.put(cluster.paths.job(JobId("odd one")), b"")
    (job,) = run_json(cluster, "ls")
    assert (job["id"], job["name"], job["phase"], job["submitted_at"]) == ("odd one", None, "?", None)
    assert "the job has no state znode" in job["reason"]


def test_quarantined_job_without_state_is_listed_as_quarantined(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    cluster.remove(cluster.paths.job(JobId("j1"), "state"))
    cluster.write_quarantine("j1", "it has no state")
    (job,) = run_json(cluster, "ls")
    assert job["phase"] == "QUARANTINED"


def test_control_characters_are_escaped(cluster: PreparedCluster) -> None:
    cluster.submit("j1", arguments=("\x1b[2J", "\u202e", "[bold]"))
    cluster.write_state("j1", Phase.PENDING, "red \x1b[31m alert\nand [/] more \u202e\x07", attempt=1)
    for command in (["ls"], ["show", "j1"], ["events"], ["stop", "j1"]):
        printed_text = run_ok(cluster, *command)
        assert "\x1b" not in printed_text and "\u202e" not in printed_text and "\x07" not in printed_text
        assert r"red \x1b[31m alert and [/] more \u202e\x07" in printed_text


def test_times_outside_the_calendar_are_accepted(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    state = cluster.write_state("j1", Phase.BACKOFF, "again later", attempt=1, not_before=float("inf"))
    for wall in ("1e300", "NaN", "-1e18"):
        data = encode(state).replace(str(state.events[0].wall).encode(), wall.encode())
        cluster.put(cluster.paths.job(JobId("j1"), "state"), data)
        for command in (["ls"], ["show", "j1"], ["events"], ["ls", "--json"], ["events", "--json"]):
            assert run_command(cluster, *command).returncode == 0, (wall, command)


def test_reasons_are_not_cut_without_a_terminal(cluster: PreparedCluster) -> None:
    reason = "because " * 100 + "of that"
    cluster.submit("j1")
    cluster.write_state("j1", Phase.PENDING, reason)
    assert reason in run_ok(cluster, "ls")


def test_missing_leader_is_mentioned(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    assert "no node leads" in run_command(cluster, "ls").stderr
    assert "no node leads" in run_ok(cluster, "show", "j1")

    async def list_with_leader() -> None:
        async with cluster.elect_leader():
            assert (await asyncio.to_thread(run_command, cluster, "ls")).stderr == ""

    asyncio.run(list_with_leader())


def test_missing_cluster_is_one_sentence(cluster: PreparedCluster) -> None:
    elsewhere = PreparedCluster(cluster.port, "/nowhere", cluster.storage)
    for command in (["ls"], ["show", "j1"], ["submit", __file__], ["events"], ["logs", "j1"], ["stop", "j1"]):
        done = run_command(elsewhere, *command)
        assert done.returncode in (0, 1)
        if command[0] in ("ls", "submit"):
            assert "no node has ever joined" in error_message(done)


def test_used_slots_are_counted(cluster: PreparedCluster) -> None:
    cluster.add_node("n1", slots=8)
    cluster.add_node("n2", slots=8)
    cluster.submit("j1", slots=2)
    cluster.write_state("j1", Phase.RUNNING, "runs", attempt=1, node="n1")
    cluster.write_lease("j1")
    cluster.submit("j2", slots=3)
    cluster.write_state("j2", Phase.STARTING, "given to n2", attempt=1, node="n2")
    cluster.submit("j3", slots=4)
    cluster.submit("j4", slots=5)
    cluster.write_state("j4", Phase.FINISHED, "over", attempt=1, node="n1")
    nodes = {node["id"]: node["slots_used"] for node in run_json(cluster, "cluster")["nodes"]}
    assert nodes == {"n1": 2, "n2": 3}


def test_health_of_each_node_is_shown(cluster: PreparedCluster) -> None:
    cluster.add_node("n1", health="its disk is full (No space left on device: /n1)")
    cluster.add_node("n2")
    nodes = {node["id"]: node["health"] for node in run_json(cluster, "cluster")["nodes"]}
    assert nodes == {"n1": "its disk is full (No space left on device: /n1)", "n2": ""}
    printed = " ".join(run_ok(cluster, "cluster").split())
    assert "its disk is full" in printed and "healthy" in printed


def test_isolation_level_of_each_node_is_shown_with_the_reason_for_a_lower_level(cluster: PreparedCluster) -> None:
    cluster.add_node("n1", isolation="scan", isolation_problem="Operation not permitted")
    cluster.add_node("n2", isolation="namespace")
    cluster.add_node("n3", isolation="cgroup", isolation_problem="HOLDFAST_ISOLATION is set")
    nodes = {node["id"]: node for node in run_json(cluster, "cluster")["nodes"]}
    levels = {id: (node["isolation"], node["isolation_problem"]) for id, node in nodes.items()}
    assert levels == {
        "n1": ("scan", "Operation not permitted"),
        "n2": ("namespace", ""),
        "n3": ("cgroup", "HOLDFAST_ISOLATION is set"),
    }
    printed = " ".join(run_ok(cluster, "cluster").split())
    assert "0 scan healthy" in printed and "0 namespace healthy" in printed and "0 cgroup healthy" in printed
    assert "n1 grants no PID namespace: Operation not permitted" in printed and "n2 grants" not in printed
    assert "n3 grants no PID namespace: HOLDFAST_ISOLATION is set" in printed


def test_isolation_level_of_a_node_of_an_earlier_release_is_unknown(cluster: PreparedCluster) -> None:
    record = {"schema": 1, "slots": 4, "address": "http://127.0.0.1:1", "version": "0", "newest_schema": 1}
    cluster.put(cluster.paths.node(NodeId("n1")), json.dumps(record).encode())
    (node,) = run_json(cluster, "cluster")["nodes"]
    assert (node["isolation"], node["isolation_problem"]) == (None, "")


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["table", "json"])
def test_listing_imports_no_slow_library(cluster: PreparedCluster, options: list[str]) -> None:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.RUNNING, "attempt 1 runs on n1", attempt=1, node="n1")
    cluster.write_lease("j1", progress=Progress(7, 12.5, ('{"t":{"0":5}}',)))
    cluster.submit("j2", schedule=Schedule(cron="0 3 * * *", timezone="Europe/Berlin"))
    cluster.write_state("j2", Phase.SCHEDULED, "the next run is due later")
    command = [sys.executable, "-c", PRINT_MODULES, "ls", "--connect", cluster.connect, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "j1" in done.stdout and "j2" in done.stdout
    assert SLOW_MODULES & set(done.stderr.splitlines()[-1].split()) == set()


def test_thousand_jobs_are_listed_quickly(cluster: PreparedCluster, report: Callable[[str], None]) -> None:
    async def submit_all(client: Client) -> None:
        specs = [Spec(name=f"n{number}", script="s.py", blob="0" * 64) for number in range(MANY)]
        for first in range(0, MANY, 250):
            await asyncio.gather(
                *(
                    submit(client, cluster.paths, spec, job=JobId(f"j-{spec.name}"), request=f"r-{spec.name}")
                    for spec in specs[first : first + 250]
                )
            )

    began = time.monotonic()
    cluster.run(submit_all)
    submitted_s = time.monotonic() - began
    began = time.monotonic()
    jobs = cluster.run(lambda client: read_jobs(client, cluster.paths, include_ended=True))
    read_s = time.monotonic() - began
    began = time.monotonic()
    listed = run_json(cluster, "ls")
    report(f"{MANY} jobs: submitted in {submitted_s:.1f} s, read in {read_s:.1f} s, listed in {time.monotonic() - began:.1f} s")
    assert len(jobs) == len({job["id"] for job in listed}) == MANY
    assert all(job["phase"] == "PENDING" for job in listed)
    assert len(run_ok(cluster, "ls").splitlines()) == MANY + 2
