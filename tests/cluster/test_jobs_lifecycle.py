"""Job phases and reasons on a real cluster: STARTING until Spark exists, the last failure, and scripts that never work."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkpoint_trees import checkpoint_files, write_files
from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

SPARK_LATER = """
import pathlib, sys, time
from holdfast.job import context
ctx = context()
while not pathlib.Path(ctx.args.permission).exists():
    time.sleep(0.1)
rates = ctx.spark.readStream.format("rate").load()
ctx.run(rates.writeStream.option("checkpointLocation", ctx.checkpoint).format("noop").start())
"""
ARGUMENTS_MISSING = """
import argparse
parser = argparse.ArgumentParser(prog="words.py")
parser.add_argument("--input", required=True)
parser.parse_args()
"""
PLAIN = "import time\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterJobs]:
    directory = tmp_path_factory.mktemp("lifecycle")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "1", "--slots", "4") as up,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        kill_leftovers(directory)


def write_script(jobs: ClusterJobs, name: str, text: str) -> Path:
    script = jobs.directory / f"{name}.py"
    script.write_text(text)
    return script


def test_job_is_starting_until_spark_exists_and_names_the_failure_that_it_follows(jobs: ClusterJobs) -> None:
    permission = jobs.directory / "permission"
    id = jobs.submit(write_script(jobs, "later", SPARK_LATER), "later", "--permission", str(permission))
    view = poll_until(lambda: (view := jobs[id])["driver_pid"] and view, 60, "the driver has a pid")
    assert view["phase"] == "STARTING", "the lease exists, and Spark does not"
    assert "STARTING" in jobs.run_ok("ls")
    permission.touch()
    running = poll_until(lambda: (view := jobs[id])["progress"]["batch_id"] is not None and view, FIRST_BATCH_S, "a batch")
    assert (running["phase"], running["reason"]) == ("RUNNING", "attempt 1 runs on n1")

    permission.unlink()
    os.kill(running["driver_pid"], signal.SIGKILL)
    again = poll_until(lambda: (view := jobs[id])["attempt"] == 2 and view["driver_pid"] and view, 60, "another attempt")
    assert again["phase"] == "STARTING"
    assert "; attempt 1 failed " in again["reason"]
    assert "killed by SIGKILL" in again["reason"]
    permission.touch()
    view = jobs.wait_for_phase(id, "RUNNING", timeout_s=FIRST_BATCH_S)
    assert view["reason"].startswith("attempt 2 runs on n1; attempt 1 failed ")
    assert "attempt 1 failed" in jobs.run_ok("ls")
    assert "attempt 1 failed" in jobs.run_ok("show", id)
    jobs.run_ok("cancel", id, "--wait")


def test_script_without_spark_is_running_although_it_never_has_a_session(jobs: ClusterJobs) -> None:
    id = jobs.submit(write_script(jobs, "plain", PLAIN), "plain", spark=False)
    jobs.wait_for_phase(id, "RUNNING")
    jobs.run_ok("cancel", id, "--wait")


def test_script_that_never_worked_fails_after_three_attempts_and_submit_returns_with_its_last_line(jobs: ClusterJobs) -> None:
    script = write_script(jobs, "words", ARGUMENTS_MISSING)
    answer = jobs.run("submit", str(script), "--wait")
    assert answer.returncode == 1, answer
    message = answer.stderr.splitlines()[-1]
    assert message.startswith("holdfast: words (")
    assert "is FAILED: the script ended with exit code 2: words.py: error: the following arguments are required" in message
    assert "the script failed 3 times and never completed a batch" in message
    (view,) = (job for job in jobs.list_jobs().values() if job["name"] == "words")
    assert (view["phase"], view["attempt"]) == ("FAILED", 3)


def test_chosen_strategy_restarts_such_a_script_for_ever(jobs: ClusterJobs) -> None:
    script = write_script(jobs, "stubborn", ARGUMENTS_MISSING)
    id = jobs.submit(script, "stubborn", spark=False, options=("--restart", "exponential"))
    poll_until(lambda: jobs[id]["attempt"] >= 4, 120, "a fourth attempt")
    jobs.run_ok("cancel", id, "--wait")


def test_person_trusts_damage_that_was_shown_and_new_damage_parks_the_job_again(jobs: ClusterJobs) -> None:
    """The checkpoint belongs to no query of the script, so only its verification is tested here."""
    id = jobs.submit(write_script(jobs, "trusted", PLAIN), "trusted", spark=False)
    query = jobs.checkpoint(id) / "query-1"

    def kill_driver_and_wait_for(phase: str) -> dict[str, Any]:
        before = jobs[id]
        os.kill(before["driver_pid"], signal.SIGKILL)
        after: dict[str, Any] = poll_until(
            lambda: (view := jobs[id])["attempt"] > before["attempt"] and view["phase"] == phase and view, 90, phase
        )
        return after

    jobs.wait_for_phase(id, "RUNNING")
    write_files(checkpoint_files(5), query)
    (query / "offsets" / "5").write_bytes(b"")
    parked = kill_driver_and_wait_for("PARKED")
    assert "offsets/5 is empty" in parked["reason"]
    assert f"'holdfast resume {id} --trust-checkpoint --reason TEXT'" in parked["reason"]
    assert "offsets/5 is empty" in park_again(jobs, id, parked["attempt"])["reason"], "resume alone verifies again"

    jobs.run_ok("resume", id, "--trust-checkpoint", "--reason", "its batch had no effect", "--wait")
    sentence = "trusts the checkpoint although it is damaged: its batch had no effect"
    assert sentence in jobs[id]["reason"]
    assert any(
        event["reason"].startswith("a user resumed the job; ") and sentence in event["reason"] for event in jobs.events(id)
    )
    assert "1 finding of the checkpoint, by " in jobs.run_ok("show", id)
    assert sentence in kill_driver_and_wait_for("RUNNING")["reason"], "the trust stays in force for this damage"

    (query / "metadata").write_bytes(b"")
    again = kill_driver_and_wait_for("PARKED")
    assert "metadata" in again["reason"] and "offsets/5" not in again["reason"], "only the new damage is named"
    jobs.run_ok("resume", id, "--trust-checkpoint", "--reason", "both", "--wait")
    assert jobs.list_jobs()[id]["checkpoint_trust"]["findings"] == 2
    jobs.run_ok("cancel", id, "--wait")


def park_again(jobs: ClusterJobs, id: str, attempt: int) -> dict[str, Any]:
    """Resume the parked job, and return its view once it is parked again."""
    jobs.run_ok("resume", id)
    view: dict[str, Any] = poll_until(
        lambda: (view := jobs[id])["attempt"] > attempt and view["phase"] == "PARKED" and view, 90, "parked again"
    )
    return view
