"""A node with a full disk reports the problem and gets no new attempts, and its jobs continue."""

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import HOLDFAST, RunningCluster, start_cluster
from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.processes import small_disk_command

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

SLEEPER = "import time\nwhile True:\n    time.sleep(1)\n"
DISK_SIZE = "160m"


class NodeDisk:
    """Small file system with the directory of node n1.

    Where mounting is not permitted, the kernel refuses writes of the node's agent by a limit on the size of files instead.
    """

    def __init__(self, up: RunningCluster, *, mounted: bool) -> None:
        self._up = up
        self._mounted = mounted

    @property
    def _agent_pid(self) -> int:
        return int(self._up.node("n1")["agent_pid"])

    @property
    def _filler(self) -> Path:
        """Return a path in the small file system, through the mount namespace of the agent."""
        return Path(f"/proc/{self._agent_pid}/root{self._up.directory}/nodes/n1/filler")

    def fill(self) -> None:
        if not self._mounted:
            resource.prlimit(self._agent_pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            return
        with contextlib.suppress(OSError), self._filler.open("wb", buffering=0) as filler:
            while filler.write(b"0" * (1 << 16)):
                pass

    def clear(self) -> None:
        if self._mounted:
            self._filler.unlink()
        else:
            resource.prlimit(self._agent_pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[ClusterJobs, NodeDisk, RunningCluster]]:
    directory = tmp_path / "c"
    mount = small_disk_command(directory / "nodes" / "n1", DISK_SIZE)
    try:
        with (
            start_cluster(directory, "--nodes", "2", "--slots", "4", command=[*(mount or []), *HOLDFAST]) as up,
            ClusterJobs(tmp_path, directory / "storage", "--dir", str(directory)) as jobs,
        ):
            yield jobs, NodeDisk(up, mounted=mount is not None), up
    finally:
        kill_leftovers(tmp_path)


def health(up: RunningCluster, node: str) -> str:
    return str(next(each["health"] for each in up.cluster()["nodes"] if each["id"] == node))


def test_node_with_a_full_disk_gets_no_new_attempts_until_it_has_space_again(
    small_disk: tuple[ClusterJobs, NodeDisk, RunningCluster], tmp_path: Path
) -> None:
    jobs, disk, up = small_disk
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    first = jobs.submit(script, "first", spark=False)
    running = jobs.wait_for_phase(first, "RUNNING")
    assert running["node"] == "n1", "the first by name among nodes with equally many free slots"
    pid = poll_until(lambda: jobs[first]["driver_pid"], 60, "the driver runs")
    assert health(up, "n1") == health(up, "n2") == ""

    disk.fill()
    problem = poll_until(lambda: health(up, "n1"), 60, "n1 reports its full disk")
    assert problem.startswith(("its disk is full (", f"its directory {up.directory}/nodes/n1 cannot be written ("))

    second = jobs.submit(script, "second", spark=False, options=("--slots", "3"))
    began = time.monotonic()
    assert jobs.wait_for_phase(second, "RUNNING")["node"] == "n2"
    assert time.monotonic() - began < 30
    assert (jobs[second]["attempt"], jobs[second]["restarts"]) == (1, 0), "no attempt was lost on n1"
    third = jobs.submit(script, "third", spark=False, options=("--slots", "3"))
    waiting = jobs.wait_for_phase(third, "PENDING")
    assert poll_until(lambda: jobs[third]["reason"].startswith("waiting for a healthy node: "), 30, "the reason names the node")
    assert jobs[third]["reason"] == f"waiting for a healthy node: n1: {problem}", waiting
    assert (jobs[first]["phase"], jobs[first]["driver_pid"]) == ("RUNNING", pid), "the running job is not affected"

    disk.clear()
    poll_until(lambda: health(up, "n1") == "", 120, "n1 is healthy again")
    assert jobs.wait_for_phase(third, "RUNNING")["node"] == "n1"
    assert jobs[third]["attempt"] == 1
