"""All ZooKeeper servers paused for longer than the session timeout, with drivers that are plain Python scripts."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.machines import MARGIN_S, SESSION_TIMEOUT_S, Machine, PartitionableEnsemble
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

SLEEPER = "import time\ntime.sleep(3600)\n"
PAUSE_S = 2 * SESSION_TIMEOUT_S


@dataclass
class PausedServersScene:
    """Three ZooKeeper servers and two nodes, with one job on each node."""

    servers: PartitionableEnsemble
    directory: Path
    jobs: ClusterJobs
    observer: ProcessObserver
    job_ids: tuple[str, ...]

    def drivers(self) -> list[tuple[int, int, int, str]]:
        """Return the driver's pid, attempt, restarts and phase of each job."""
        views = [self.jobs[id] for id in self.job_ids]
        return [(view["driver_pid"], view["attempt"], view["restarts"], view["phase"]) for view in views]

    def runner_events(self, event: str) -> list[dict[str, Any]]:
        logs = self.directory.glob("n*/attempts/*/*/runner.log")
        lines = [json.loads(line) for log in logs for line in log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    @contextlib.contextmanager
    def pause_servers(self) -> Iterator[None]:
        for server in self.servers.servers.values():
            server.pause()
        try:
            yield
        finally:
            for server in self.servers.servers.values():
                server.resume()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[PausedServersScene]:
    storage = tmp_path / "storage"
    storage.mkdir()
    with contextlib.ExitStack() as stack:
        stack.callback(kill_leftovers, tmp_path)
        servers = stack.enter_context(PartitionableEnsemble(tmp_path))
        machines = [
            stack.enter_context(Machine(id, tmp_path / id, servers.connect, cluster="paused", storage=storage, slots=1))
            for id in ("n1", "n2")
        ]
        wait_until(lambda: all(m.node and m.node.status().get("registered") for m in machines), 60, "both nodes are registered")
        observer = stack.enter_context(ProcessObserver(tmp_path))
        jobs = stack.enter_context(ClusterJobs(tmp_path, storage, "--connect", servers.connect, "--cluster", "paused"))
        script = tmp_path / "sleeper.py"
        script.write_text(SLEEPER)
        ids = tuple(jobs.submit(script, name, spark=False) for name in ("first", "second"))
        poll_until(lambda: all(jobs[id]["phase"] == "RUNNING" and jobs[id]["driver_pid"] for id in ids), 60, "both jobs run")
        yield PausedServersScene(servers, tmp_path, jobs, observer, ids)


def test_drivers_stay_when_all_servers_are_paused_for_two_session_timeouts(
    scene: PausedServersScene, report: Callable[[str], None]
) -> None:
    before = scene.drivers()
    events = [len(scene.jobs.events(id)) for id in scene.job_ids]
    with scene.pause_servers():
        threading.Event().wait(PAUSE_S)
    poll_until(lambda: len(scene.jobs.nodes()) == 2 and scene.jobs.leader()[0], 60, "two nodes and a leader")
    poll_until(lambda: len(scene.runner_events("lease taken again")) == 2, 60, "both leases are taken again")
    threading.Event().wait(2 * MARGIN_S)  # a leader that does not know the new leases would start other attempts by then
    assert scene.drivers() == before
    assert [len(scene.jobs.events(id)) for id in scene.job_ids] == events
    for id in scene.job_ids:
        assert len({process.nonce for process in scene.observer.processes(id)}) == 1
    left_s = [line["left_s"] for line in scene.runner_events("session ended; driver keeps running on failsafe promises")]
    report(f"outages: after a pause of {PAUSE_S:g} s, both leases were taken again; promises were valid for {left_s} s")
