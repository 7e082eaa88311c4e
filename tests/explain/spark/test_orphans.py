"""Processes that are started while an interruption arrives."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cluster.process_observer import list_pids, read_environment

pytestmark = pytest.mark.slow

PROGRAM = """
import subprocess, sys
from holdfast.explain.spark.orphans import kill_children_on_interrupt

with kill_children_on_interrupt():
    # Orphans of a script that keeps starting processes. A listing of the descendants is outdated at once.
    subprocess.run(["bash", "-c", "echo started; for n in $(seq 300); do (sleep 30 &); done; wait; sleep 30"])
"""


def test_interrupt_kills_orphans_that_are_being_started(tmp_path: Path) -> None:
    mark = str(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "HOLDFAST_TEST_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert process.returncode != 0
    assert [pid for pid in list_pids() if read_environment(pid).get("HOLDFAST_TEST_MARK") == mark] == []
