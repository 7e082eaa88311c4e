"""`make demo`: run a real cluster on this machine with a real Spark job, and break it on purpose, in about a minute.

The demo uses the command line as you would. It starts three ZooKeeper servers and two nodes, and submits two jobs: one that
streams and one that fails. Then it kills and pauses processes. After each fault it checks the leader, and that the job still
runs in the same driver process. It exits with 1 if a check fails.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
EXAMPLES = Path(__file__).parent
WAIT_S = 60.0
JOB_WAIT_S = 120.0
SMALL_JOB = ("--conf", "spark.master=local[1]", "--conf", "spark.sql.shuffle.partitions=1")

console = Console(highlight=False)


class Demo:
    """Cluster in a temporary directory, and the checks made so far."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._checks: list[tuple[str, bool]] = []

    def holdfast(self, *arguments: str, script_arguments: Sequence[str] = ()) -> str:
        """Run a `holdfast` command and return its output. Exits if the command fails."""
        separated = ["--", *script_arguments] if script_arguments else []
        command = [*HOLDFAST, *arguments, "--dir", str(self._directory), *separated]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(result.stderr.strip() or f"`holdfast {arguments[0]}` failed")
        return result.stdout

    def cluster(self) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(self.holdfast("cluster", "--json"))
        return view

    def leader(self) -> tuple[str | None, int]:
        """Return the leading node and its epoch."""
        view = self.cluster()
        return view["leader"], view["epoch"]

    def processes(self) -> dict[str, Any]:
        """Return the process ids that `holdfast up` records."""
        described: dict[str, Any] = json.loads((self._directory / "cluster.json").read_text())
        return described

    def check(self, statement: str, passed: bool) -> None:
        self._checks.append((statement, passed))
        console.print(f"   {'[green]✓[/]' if passed else '[red]✗[/]'} {statement}")

    def summarize(self) -> int:
        """Print the number of failed checks. Return the exit code."""
        failed = [statement for statement, passed in self._checks if not passed]
        console.print()
        if failed:
            console.print(f"[red]{len(failed)} of {len(self._checks)} checks failed[/]: {'; '.join(failed)}")
            return 1
        console.print(f"[green]all {len(self._checks)} checks passed[/]")
        return 0

    # Steps

    def start(self) -> None:
        console.print("[bold]holdfast up:[/] start a cluster with --zookeepers 3 --nodes 2 --detach")
        started = time.monotonic()
        self.holdfast("up", "--zookeepers", "3", "--nodes", "2", "--detach")
        leader, epoch = self.leader()
        console.print(f"   started in {time.monotonic() - started:.1f} s: the leader is {leader}, epoch {epoch}")
        self.check("both nodes have joined the cluster", len(self.cluster()["nodes"]) == 2)

    def job(self, name: str) -> dict[str, Any]:
        jobs = json.loads(self.holdfast("ls", "--all", "--json"))
        job: dict[str, Any] = next(job for job in jobs if job["name"] == name)
        return job

    def batch(self) -> int:
        """Return the last batch id of the streaming job, or -1 before its first batch."""
        progress = self.job("rates")["progress"] or {}
        return -1 if progress.get("batch_id") is None else int(progress["batch_id"])

    def submit(self) -> None:
        console.print("\n[bold]holdfast submit:[/] rate_to_parquet.py, which streams, and crash.py, which fails")
        output = self._directory.parent / "rates"
        streaming, failing = str(EXAMPLES / "rate_to_parquet.py"), str(EXAMPLES / "crash.py")
        self.holdfast("submit", streaming, "--name", "rates", *SMALL_JOB, script_arguments=["--output", str(output)])
        self.holdfast("submit", failing, "--name", "broken", "--restart", "never", *SMALL_JOB, script_arguments=["raise"])
        _wait_until(lambda: self.batch() >= 0, "the first batch of the job 'rates'", JOB_WAIT_S)
        job = self.job("rates")
        console.print(f"   the job 'rates' runs on {job['node']}: driver process {job['driver_pid']}, batch {self.batch()}")

    def check_isolation(self) -> None:
        console.print("\n[bold]A failing job affects nothing else[/]")
        _wait_until(lambda: self.job("broken")["phase"] == "FAILED", "the failure of the job 'broken'", JOB_WAIT_S)
        console.print(f"   the job 'broken': {self.job('broken')['reason']}")
        self.check("both nodes are still in the cluster", len(self.cluster()["nodes"]) == 2)

    def check_same_driver(self, fault: str, job: dict[str, Any]) -> None:
        """Check that the streaming job continues in the same process as before."""
        batch = self.batch()
        _wait_until(lambda: self.batch() > batch, "the next batch of the job 'rates'", JOB_WAIT_S)
        now = self.job("rates")
        console.print(f"   the job 'rates': driver process {now['driver_pid']}, attempt {now['attempt']}, batch {self.batch()}")
        same = (now["driver_pid"], now["restarts"]) == (job["driver_pid"], job["restarts"])
        self.check(f"same driver process after {fault}", same)

    def kill_runner(self) -> None:
        console.print("\n[bold]Kill the runner, the process that supervises the job's driver[/]")
        before = self.job("rates")
        lock = self._directory / "nodes" / before["node"] / "attempts" / before["id"] / str(before["attempt"]) / "runner.lock"
        killed = time.monotonic()
        os.kill(int(lock.read_text()), signal.SIGKILL)
        _wait_until(lambda: self.job("rates")["attempt"] > before["attempt"], "the next attempt of the job 'rates'")
        waited_s = time.monotonic() - killed
        gone = not _is_running(before["driver_pid"])
        console.print(f"   attempt {before['attempt'] + 1} started {waited_s:.1f} s later")
        self.check("the old driver had ended before the new one started", gone)
        self.check("the restart did not wait for the session timeout (10 s)", waited_s < 10)
        _wait_until(lambda: self.batch() > -1, "a batch of the new attempt", JOB_WAIT_S)
        commits = self._directory / "storage" / "checkpoints" / before["id"]
        batches = sorted(int(path.name) for path in commits.glob("**/commits/*") if path.name.isdigit())
        self.check(f"batches 0 to {batches[-1]} are committed without a gap", batches == list(range(len(batches))))

    def kill_zookeeper_servers(self) -> None:
        console.print("\n[bold]Kill each ZooKeeper server in turn[/]")
        before, job = self.leader(), self.job("rates")
        for id in ("1", "2", "3"):
            old = self._server(id)["pid"]
            os.kill(old, signal.SIGKILL)
            during = self.leader()
            console.print(f"   server {id} killed: the leader is {during[0]}, epoch {during[1]}")
            self.check(f"leader and epoch are unchanged without server {id}", during == before)
            _wait_until(lambda id=id, old=old: self._server(id)["pid"] not in (old, None), f"the restart of server {id}")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            _wait_until(self._all_servers_reachable, "all ZooKeeper servers")
        self.check("leader and epoch are unchanged afterwards", self.leader() == before)
        self.check_same_driver("every ZooKeeper server was killed once", job)

    def pause_follower(self) -> None:
        console.print("\n[bold]Pause a ZooKeeper follower for five seconds[/]")
        before = self.leader()
        follower = next(server["id"] for server in self.cluster()["zookeeper"] if server["mode"] == "follower")
        pid = self._server(follower)["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            until = time.monotonic() + 5
            leaders = {self.leader()}
            while time.monotonic() < until:
                leaders.add(self.leader())
        finally:
            os.kill(pid, signal.SIGCONT)
        self.check("leader and epoch are unchanged during the pause", leaders == {before})

    def kill_leader(self) -> None:
        console.print("\n[bold]Kill the agent of the leading node[/]")
        leader, epoch = self.leader()
        job = self.job("rates")
        pid = next(node["agent_pid"] for node in self.processes()["nodes"] if node["id"] == leader)
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        _wait_until(lambda: self.leader()[1] > epoch and self.leader()[0] is not None, "a new leader")
        successor, next_epoch = self.leader()
        console.print(f"   after {time.monotonic() - killed:.1f} s the leader is {successor}, epoch {next_epoch}")
        self.check("the other node is the leader", successor not in (leader, None))
        self.check("the epoch has increased", next_epoch > epoch)
        _wait_until(lambda: len(self.cluster()["nodes"]) == 2, "the restart of the killed agent")
        self.check("failover and restart did not wait for the session timeout (10 s)", time.monotonic() - killed < 10)
        self.check_same_driver("the leader was killed", job)

    def _server(self, id: str) -> dict[str, Any]:
        return next(server for server in self.processes()["zookeepers"] if server["id"] == id)

    def _all_servers_reachable(self) -> bool:
        return all(server["mode"] != "unreachable" for server in self.cluster()["zookeeper"])


def _is_running(pid: int) -> bool:
    """Return False for a process that has ended, also if its parent has not collected its exit status yet (a zombie)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def _wait_until(condition: Callable[[], bool], expected: str, timeout_s: float = WAIT_S) -> None:
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > give_up_at:
            raise SystemExit(f"the demo gave up: it waited {timeout_s:g} s for {expected}")
        time.sleep(0.1)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        demo = Demo(Path(directory) / "cluster")
        try:
            demo.start()
            demo.submit()
            demo.kill_zookeeper_servers()
            demo.pause_follower()
            demo.check_isolation()
            demo.kill_leader()
            demo.kill_runner()
        finally:
            if (Path(directory) / "cluster" / "cluster.json").exists():
                demo.holdfast("down")
        return demo.summarize()


if __name__ == "__main__":
    sys.exit(main())
