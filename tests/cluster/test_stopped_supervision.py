"""Runner and watchdog stopped together, as SIGSTOP does: their node ends the attempt before the next one starts."""

import os
import signal
from pathlib import Path

import pytest

from tests.harness.cluster.jobs import AttemptProcesses, ClusterJobs, poll_until
from tests.harness.cluster.nodes import start_node
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers, read_stat
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]

SLEEPER = "import time\ntime.sleep(3600)\n"


def test_node_ends_an_attempt_whose_runner_and_watchdog_are_stopped(tmp_path: Path, connect: str, cluster: str) -> None:
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    try:
        with (
            start_node(tmp_path / "n1", connect, cluster=cluster) as node,
            ProcessObserver(tmp_path) as observer,
            ClusterJobs(tmp_path, tmp_path / "storage", "--connect", connect, "--cluster", cluster) as jobs,
        ):
            wait_until(node.is_leading, 60, "the node leads")
            job = jobs.submit(script, "sleeper", spark=False)
            driver = poll_until(lambda: jobs[job]["driver_pid"], 120, "the driver runs")
            processes = AttemptProcesses(next(each for each in observer.processes(job) if each.pid == driver))
            for pid in (processes.runner, processes.watchdog):
                os.kill(pid, signal.SIGSTOP)
            poll_until(lambda: jobs[job]["attempt"] == 2 and jobs[job]["phase"] == "RUNNING", 120, "the second attempt runs")
            assert read_stat(driver) is None, "the first driver is dead"
            reasons = [event["reason"] for event in jobs.events(job)]
            assert reasons.count("waiting for n1 to confirm that attempt 1 has ended") == 1
            assert len(node.events("attempt certified dead")) == 1
            started = next(event for event in node.events("attempt started") if event["attempt"] == 2)
            certified = node.events("attempt certified dead")[0]
            assert node.log.index(certified) < node.log.index(started)
            jobs.run_ok("cancel", job, "--wait")
    finally:
        kill_leftovers(tmp_path)
