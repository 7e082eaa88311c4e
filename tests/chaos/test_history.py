"""History of the chaos suite: what is written is read back, from all three sources, also after a process was killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.history import (
    HEARTBEATS_NAME,
    WITNESS_NAME,
    FaultRecord,
    HistoryWriter,
    JobSample,
    OperationRecord,
    RunRecord,
    Signalled,
    SteadyJob,
    boottime,
    load_history,
    load_witness,
)
from tests.harness.waiting import wait_until

RUN = RunRecord(1, ("kill:agent",), 3.0, 1.2, 0.5)
FAULT = FaultRecord(
    1, "kill:agent", "", 1.0, 2.0, None, 30.0, ("j",), (Signalled("agent", 7, "n1"),), "no leader", ("j",), 60.0
)
REPOSITORY = Path(__file__).parents[2]


def test_records_are_read_back(tmp_path: Path) -> None:
    operation, sample = OperationRecord("cancel", "j", "r", 1.0, 2.0, "unknown", "lost"), JobSample(1.0, "j", "RUNNING", 2, 1)
    writer = HistoryWriter(tmp_path)
    for record in (RUN, SteadyJob("j", "steady"), FAULT, operation, sample):
        writer.add(record)
    writer.close()
    history = load_history(tmp_path)
    assert (history.run, history.steady, history.faults) == (RUN, (SteadyJob("j", "steady"),), (FAULT,))
    assert (history.operations, history.samples) == ((operation,), (sample,))


def test_last_heartbeat_of_a_killed_driver_may_be_cut_off(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path)
    writer.add(RUN)
    writer.close()
    (tmp_path / HEARTBEATS_NAME).mkdir()
    beat = {"job": "j", "attempt": 1, "nonce": "n", "pid": 5}
    lines = [json.dumps({**beat, "at": at}) for at in (1.0, 1.05)]
    (tmp_path / HEARTBEATS_NAME / "j.jsonl").write_text("\n".join(lines) + '\n{"job": "j", "att')
    (series,) = load_history(tmp_path).heartbeats
    assert (series.nonce, series.times) == ("n", (1.0, 1.05))


@pytest.mark.slow
def test_witness_records_a_process_until_its_death_and_counts_a_stopped_one_as_alive(tmp_path: Path) -> None:
    cluster, file = tmp_path / "cluster", tmp_path / WITNESS_NAME
    variables = {"HOLDFAST_JOB": "j", "HOLDFAST_ATTEMPT": "3", "HOLDFAST_NONCE": "n", "HOLDFAST_CONTROL": f"{cluster}/control"}
    witness = subprocess.Popen([sys.executable, "-m", "tests.chaos.witness", str(cluster), str(file)], cwd=REPOSITORY)
    try:
        wait_until(lambda: file.exists() and load_witness(file)[2], 30, "the witness scans")
        sleep = [sys.executable, "-c", "import time; time.sleep(60)", "holdfast.driver.bootstrap"]
        driver = subprocess.Popen(sleep, env={**os.environ, **variables})
        (seen,) = wait_until(lambda: load_witness(file)[0], 30, "the witness sees the driver")
        assert (seen.job, seen.attempt, seen.nonce, seen.pid, seen.is_driver) == ("j", 3, "n", driver.pid, True)
        driver.send_signal(signal.SIGSTOP)
        stopped_at = boottime()
        wait_until(lambda: load_witness(file)[0][0].last_seen > stopped_at + 0.2, 30, "a stopped driver is alive")
        driver.kill()
        driver.wait()
        killed_at = boottime()
        wait_until(lambda: load_witness(file)[2] > killed_at + 0.6, 30, "the witness scans on")
        ((process,), longest_gap_s, _) = load_witness(file)
        assert process.last_seen < killed_at
        assert longest_gap_s > 0
    finally:
        witness.terminate()
        assert witness.wait(30) == 0
