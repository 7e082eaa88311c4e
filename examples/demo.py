"""`make demo`: a real cluster on this machine with a real Spark job, broken on purpose, in about a minute.

Three real ZooKeeper servers and two nodes are started by the command line, as you would, and two jobs are submitted: one that
streams, one that fails. Then things are killed and paused, and after each blow the demo asks who leads and whether the job's
driver is still the same process. It ends with checks, and exits with 1 if one of them fails.
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
SMALL = ("--conf", "spark.master=local[1]", "--conf", "spark.sql.shuffle.partitions=1")

console = Console(highlight=False)


class Demo:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._checks: list[tuple[str, bool]] = []

    def holdfast(self, *arguments: str, tail: Sequence[str] = ()) -> str:
        command = [*HOLDFAST, *arguments, "--dir", str(self._directory), *(["--", *tail] if tail else [])]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise SystemExit(answer.stderr.strip() or f"'holdfast {arguments[0]}' failed")
        return answer.stdout

    def cluster(self) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(self.holdfast("cluster", "--json"))
        return view

    def leader(self) -> tuple[str | None, int]:
        view = self.cluster()
        return view["leader"], view["epoch"]

    def processes(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads((self._directory / "cluster.json").read_text())
        return described

    def check(self, what: str, holds: bool) -> None:
        self._checks.append((what, holds))
        console.print(f"   {'[green]✓[/]' if holds else '[red]✗[/]'} {what}")

    def verdict(self) -> int:
        failed = [what for what, holds in self._checks if not holds]
        console.print()
        if failed:
            console.print(f"[red]{len(failed)} of {len(self._checks)} checks failed[/]: {'; '.join(failed)}")
            return 1
        console.print(f"[green]all {len(self._checks)} checks hold[/]")
        return 0

    # The acts

    def start(self) -> None:
        console.print("[bold]holdfast up --zookeepers 3 --nodes 2 --detach[/]")
        started = time.monotonic()
        self.holdfast("up", "--zookeepers", "3", "--nodes", "2", "--detach")
        leader, epoch = self.leader()
        console.print(f"   up in {time.monotonic() - started:.1f} s: {leader} leads, epoch {epoch}")
        self.check("both nodes are there", len(self.cluster()["nodes"]) == 2)

    def job(self, name: str) -> dict[str, Any]:
        jobs = json.loads(self.holdfast("ls", "--all", "--json"))
        found: dict[str, Any] = next(job for job in jobs if job["name"] == name)
        return found

    def batch(self) -> int:
        progress = self.job("rates")["progress"] or {}
        return -1 if progress.get("batch_id") is None else int(progress["batch_id"])

    def submit(self) -> None:
        console.print("\n[bold]holdfast submit rate_to_parquet.py; holdfast submit crash.py[/]")
        output = self._directory.parent / "rates"
        self.holdfast("submit", str(EXAMPLES / "rate_to_parquet.py"), "--name", "rates", *SMALL, tail=["--output", str(output)])
        self.holdfast("submit", str(EXAMPLES / "crash.py"), "--name", "broken", "--restart", "never", *SMALL, tail=["raise"])
        _until(lambda: self.batch() >= 0, "the first batch", JOB_WAIT_S)
        job = self.job("rates")
        console.print(f"   rates runs on {job['node']}: driver {job['driver_pid']}, batch {self.batch()}")

    def isolation(self) -> None:
        console.print("\n[bold]the job that fails[/]")
        _until(lambda: self.job("broken")["phase"] == "FAILED", "the broken job has failed", JOB_WAIT_S)
        console.print(f"   broken: {self.job('broken')['reason']}")
        self.check("it failed alone, and every node is there", len(self.cluster()["nodes"]) == 2)

    def unhurt(self, blow: str, job: dict[str, Any]) -> None:
        """The job did not even notice."""
        batch = self.batch()
        _until(lambda: self.batch() > batch, "the next batch", JOB_WAIT_S)
        now = self.job("rates")
        console.print(f"   rates: driver {now['driver_pid']}, attempt {now['attempt']}, batch {self.batch()}")
        same = (now["driver_pid"], now["restarts"]) == (job["driver_pid"], job["restarts"])
        self.check(f"the job's driver is the same process after {blow}, and goes on", same)

    def kill_the_runner(self) -> None:
        console.print("\n[bold]the process that watches over the job is killed[/]")
        before = self.job("rates")
        lock = self._directory / "nodes" / before["node"] / "attempts" / before["id"] / str(before["attempt"]) / "runner.lock"
        killed = time.monotonic()
        os.kill(int(lock.read_text()), signal.SIGKILL)
        _until(lambda: self.job("rates")["attempt"] > before["attempt"], "the next attempt")
        waited_s = time.monotonic() - killed
        gone = not Path(f"/proc/{before['driver_pid']}").exists()
        console.print(f"   attempt {before['attempt'] + 1} began {waited_s:.1f} s later")
        self.check("the old driver was gone before the next one began", gone)
        self.check("and nobody waited for its session to expire (10 s)", waited_s < 10)
        _until(lambda: self.batch() > -1, "it runs again", JOB_WAIT_S)
        commits = self._directory / "storage" / "checkpoints" / before["id"]
        batches = sorted(int(path.name) for path in commits.glob("**/commits/*") if path.name.isdigit())
        self.check(f"batches 0 to {batches[-1]} are committed, without a gap", batches == list(range(len(batches))))

    def bounce_zookeeper(self) -> None:
        console.print("\n[bold]every ZooKeeper server is killed in turn[/]")
        before, job = self.leader(), self.job("rates")
        for id in ("1", "2", "3"):
            old = self._server(id)["pid"]
            os.kill(old, signal.SIGKILL)
            during = self.leader()
            console.print(f"   server {id} killed: {during[0]} leads, epoch {during[1]}")
            self.check(f"same leader and epoch without server {id}", during == before)
            _until(lambda id=id, old=old: self._server(id)["pid"] not in (old, None), f"server {id} is started again")  # type: ignore[misc]
            _until(self._all_serve, "all servers serve")
        self.check("same leader and epoch afterwards", self.leader() == before)
        self.unhurt("every ZooKeeper server was killed", job)

    def pause_a_follower(self) -> None:
        console.print("\n[bold]a ZooKeeper follower is paused for five seconds[/]")
        before = self.leader()
        follower = next(server["id"] for server in self.cluster()["zookeeper"] if server["mode"] == "follower")
        pid = self._server(follower)["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            until = time.monotonic() + 5
            seen = {self.leader()}
            while time.monotonic() < until:
                seen.add(self.leader())
        finally:
            os.kill(pid, signal.SIGCONT)
        self.check("same leader and epoch throughout", seen == {before})

    def kill_the_leader(self) -> None:
        console.print("\n[bold]the leading agent is killed[/]")
        leader, epoch = self.leader()
        job = self.job("rates")
        pid = next(node["agent_pid"] for node in self.processes()["nodes"] if node["id"] == leader)
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        _until(lambda: self.leader()[1] > epoch and self.leader()[0] is not None, "another leader")
        successor, next_epoch = self.leader()
        console.print(f"   {successor} leads, epoch {next_epoch}, seen {time.monotonic() - killed:.1f} s later")
        self.check("the other node leads", successor not in (leader, None))
        self.check("the epoch has grown", next_epoch > epoch)
        _until(lambda: len(self.cluster()["nodes"]) == 2, "the killed agent is back")
        self.check("nobody waited for the session to expire (10 s)", time.monotonic() - killed < 10)
        self.unhurt("the leader was killed", job)

    def _server(self, id: str) -> dict[str, Any]:
        return next(server for server in self.processes()["zookeepers"] if server["id"] == id)

    def _all_serve(self) -> bool:
        return all(server["mode"] != "unreachable" for server in self.cluster()["zookeeper"])


def _until(condition: Callable[[], bool], what: str, within_s: float = WAIT_S) -> None:
    give_up_at = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > give_up_at:
            raise SystemExit(f"the demo waited {within_s:g} s in vain: {what}")
        time.sleep(0.1)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        demo = Demo(Path(directory) / "cluster")
        try:
            demo.start()
            demo.submit()
            demo.bounce_zookeeper()
            demo.pause_a_follower()
            demo.isolation()
            demo.kill_the_leader()
            demo.kill_the_runner()
        finally:
            if (Path(directory) / "cluster" / "cluster.json").exists():
                demo.holdfast("down")
        return demo.verdict()


if __name__ == "__main__":
    sys.exit(main())
