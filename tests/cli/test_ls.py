"""Listing jobs: every job has a row, whatever state it is in."""

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from holdfast.model.codec import encode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Progress, Spec
from holdfast.model.phase import Phase
from holdfast.zk.records.job_reader import read_jobs
from holdfast.zk.records.submission import submit
from holdfast.zk.session.client import Client
from tests.harness.command_line import answer, asked, refusal, run
from tests.harness.prepared_cluster import LaidOut

pytestmark = pytest.mark.real

KEYS = ["id", "name", "phase", "reason", "attempt", "restarts", "node", "driver_pid", "progress", "submitted_at", "desired"]
GARBAGE = [b"", b"\x00\xff noise", b"{}", b"[1]", b'{"schema":1}', b"[" * 50_000, b'{"schema":99}']
MANY = 1000


def test_a_running_job_is_told_with_the_keys_that_scripts_rely_on(cluster: LaidOut) -> None:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.RUNNING, "attempt 3 runs on n1", attempt=3, node="n1", restarts=2)
    cluster.lease("j1", attempt=3, progress=Progress(7, 12.5, ('{"t":{"0":5}}', "not JSON", "NaN")))
    (job,) = asked(cluster, "ls")
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
        "progress": {"batch_id": 7, "rows_per_second": 12.5, "offsets": [{"t": {"0": 5}}, "not JSON", "NaN"], "lag": []},
        "desired": "run",
    }


def test_a_job_that_nobody_has_looked_at_has_the_same_keys(cluster: LaidOut) -> None:
    cluster.submit("j1")
    (job,) = asked(cluster, "ls")
    assert list(job) == KEYS
    assert job["phase"] == "PENDING"
    assert job["progress"] == {"batch_id": None, "rows_per_second": None, "offsets": [], "lag": []}
    assert job["node"] is job["driver_pid"] is None


def test_what_is_no_number_is_no_number_in_json_either(cluster: LaidOut) -> None:
    cluster.submit("j1")
    cluster.settle("j1", Phase.RUNNING, "runs", attempt=1, node="n1")
    cluster.lease("j1", progress=Progress(1, float("nan")))
    done = run(cluster, "ls", "--json")
    assert "NaN" not in done.stdout
    assert json.loads(done.stdout)[0]["progress"]["rows_per_second"] is None


def test_how_far_a_job_had_come_is_told_when_it_does_not_run(cluster: LaidOut) -> None:
    cluster.submit("j1")
    cluster.settle("j1", Phase.PARKED, "stopped", attempt=1)
    cluster.report("j1", progress=Progress(9, 100.0))
    (job,) = asked(cluster, "ls")
    assert job["progress"]["batch_id"] == 9
    assert job["progress"]["rows_per_second"] is None


def test_jobs_that_ended_are_listed_only_if_asked_for(cluster: LaidOut) -> None:
    cluster.submit("j1", name="live")
    cluster.submit("j2", name="over")
    cluster.settle("j2", Phase.FINISHED, "it came to its end", attempt=1)
    assert [job["name"] for job in asked(cluster, "ls")] == ["live"]
    assert [job["name"] for job in asked(cluster, "ls", "--all")] == ["live", "over"]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("part", ["spec", "desired", "state", "lease", "report"])
def test_garbage_in_one_job_leaves_the_others_readable(cluster: LaidOut, part: str, garbage: bytes) -> None:
    for job in ("j1", "j2"):
        cluster.submit(job, name=f"n-{job}")
        cluster.settle(job, Phase.RUNNING, "runs", attempt=1, node="n1")
        cluster.lease(job)
    cluster.put(cluster.paths.job(JobId("j1"), part), garbage)
    broken, whole = asked(cluster, "ls")
    assert (broken["name"], broken["id"]) == ("n-j1", "j1")
    assert list(broken) == KEYS
    assert whole["phase"] == "RUNNING" and whole["reason"] == "runs"
    if part == "report" and not garbage:
        assert broken["reason"] == "runs"  # which is how a report looks before the first attempt
    else:
        assert f"its {part} " in broken["reason"]
    assert broken["phase"] == ("?" if part == "state" else "RUNNING")


@pytest.mark.parametrize("command", [["ls"], ["ls", "--all"], ["events"], ["cluster"], ["show"]], ids=" ".join)
def test_no_command_minds_garbage(cluster: LaidOut, command: list[str]) -> None:
    parts = ["spec", "desired", "state", "lease", "report"]
    for part in parts:
        cluster.submit(f"j-{part}")
        cluster.settle(f"j-{part}", Phase.RUNNING, "runs", attempt=1, node="n1")
        cluster.put(cluster.paths.job(JobId(f"j-{part}"), part), b"\x00\xff noise")
    for job in [f"j-{part}" for part in parts] if command == ["show"] else [None]:
        assert run(cluster, *command, *([job] if job is not None else [])).returncode == 0


@pytest.mark.parametrize("part", ["spec", "desired", "state"])
def test_a_missing_part_is_said(cluster: LaidOut, part: str) -> None:
    cluster.submit("j1")
    cluster.remove(cluster.paths.job(JobId("j1"), part))
    (job,) = asked(cluster, "ls")
    assert f"it has no {part}" in job["reason"]


def test_a_folder_without_anything_is_a_row_too(cluster: LaidOut) -> None:
    cluster.put(cluster.paths.job(JobId("odd one")), b"")
    (job,) = asked(cluster, "ls")
    assert (job["id"], job["name"], job["phase"], job["submitted_at"]) == ("odd one", None, "?", None)
    assert "it has no state" in job["reason"]


def test_a_job_in_quarantine_is_told_as_such_without_a_state(cluster: LaidOut) -> None:
    cluster.submit("j1")
    cluster.remove(cluster.paths.job(JobId("j1"), "state"))
    cluster.quarantine("j1", "it has no state")
    (job,) = asked(cluster, "ls")
    assert job["phase"] == "QUARANTINED"


def test_nothing_that_a_job_says_reaches_the_terminal_as_a_command(cluster: LaidOut) -> None:
    cluster.submit("j1", arguments=("\x1b[2J", "\u202e", "[bold]"))
    cluster.settle("j1", Phase.PENDING, "red \x1b[31m alert\nand [/] more \u202e\x07", attempt=1)
    for command in (["ls"], ["show", "j1"], ["events"], ["stop", "j1"]):
        said = answer(cluster, *command)
        assert "\x1b" not in said and "\u202e" not in said and "\x07" not in said
        assert r"red \x1b[31m alert and [/] more \u202e\x07" in said


def test_times_that_no_calendar_has_are_no_reason_to_fail(cluster: LaidOut) -> None:
    cluster.submit("j1")
    state = cluster.settle("j1", Phase.BACKOFF, "again later", attempt=1, not_before=float("inf"))
    for wall in ("1e300", "NaN", "-1e18"):
        data = encode(state).replace(str(state.events[0].wall).encode(), wall.encode())
        cluster.put(cluster.paths.job(JobId("j1"), "state"), data)
        for command in (["ls"], ["show", "j1"], ["events"], ["ls", "--json"], ["events", "--json"]):
            assert run(cluster, *command).returncode == 0, (wall, command)


def test_without_a_terminal_no_reason_is_cut(cluster: LaidOut) -> None:
    reason = "because " * 100 + "of that"
    cluster.submit("j1")
    cluster.settle("j1", Phase.PENDING, reason)
    assert reason in answer(cluster, "ls")


def test_that_nobody_leads_is_said(cluster: LaidOut) -> None:
    cluster.submit("j1")
    assert "no node leads" in run(cluster, "ls").stderr
    assert "no node leads" in answer(cluster, "show", "j1")

    async def led() -> None:
        async with cluster.led():
            assert (await asyncio.to_thread(run, cluster, "ls")).stderr == ""

    asyncio.run(led())


def test_a_cluster_that_nobody_has_founded_is_one_sentence(cluster: LaidOut) -> None:
    elsewhere = LaidOut(cluster.port, "/nowhere", cluster.storage)
    for command in (["ls"], ["show", "j1"], ["submit", __file__], ["events"], ["logs", "j1"], ["stop", "j1"]):
        done = run(elsewhere, *command)
        assert done.returncode in (0, 1)
        if command[0] in ("ls", "submit"):
            assert "no node has ever joined" in refusal(done)


def test_slots_in_use_are_counted(cluster: LaidOut) -> None:
    cluster.node("n1", slots=8)
    cluster.node("n2", slots=8)
    cluster.submit("j1", slots=2)
    cluster.settle("j1", Phase.RUNNING, "runs", attempt=1, node="n1")
    cluster.lease("j1")
    cluster.submit("j2", slots=3)
    cluster.settle("j2", Phase.STARTING, "given to n2", attempt=1, node="n2")
    cluster.submit("j3", slots=4)
    cluster.submit("j4", slots=5)
    cluster.settle("j4", Phase.FINISHED, "over", attempt=1, node="n1")
    nodes = {node["id"]: node["slots_used"] for node in asked(cluster, "cluster")["nodes"]}
    assert nodes == {"n1": 2, "n2": 3}


def test_a_thousand_jobs_submitted_at_once_are_listed_quickly(cluster: LaidOut, report: Callable[[str], None]) -> None:
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
    jobs = cluster.run(lambda client: read_jobs(client, cluster.paths, ended=True))
    read_s = time.monotonic() - began
    began = time.monotonic()
    listed = asked(cluster, "ls")
    report(f"{MANY} jobs: submitted in {submitted_s:.1f} s, read in {read_s:.1f} s, listed in {time.monotonic() - began:.1f} s")
    assert len(jobs) == len({job["id"] for job in listed}) == MANY
    assert all(job["phase"] == "PENDING" for job in listed)
    assert len(answer(cluster, "ls").splitlines()) == MANY + 2
