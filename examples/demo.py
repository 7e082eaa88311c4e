"""`make demo`: a real cluster on this machine, broken on purpose, in about half a minute.

Three real ZooKeeper servers and two nodes are started by the command line, as you would. Then things are killed and paused,
and after each blow the demo asks the cluster who leads. It ends with checks, and exits with 1 if one of them fails.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
WAIT_S = 60.0

console = Console(highlight=False)


class Demo:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._checks: list[tuple[str, bool]] = []

    def holdfast(self, *arguments: str) -> str:
        command = [*HOLDFAST, *arguments, "--dir", str(self._directory)]
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

    def bounce_zookeeper(self) -> None:
        console.print("\n[bold]every ZooKeeper server is killed in turn[/]")
        before = self.leader()
        for id in ("1", "2", "3"):
            old = self._server(id)["pid"]
            os.kill(old, signal.SIGKILL)
            during = self.leader()
            console.print(f"   server {id} killed: {during[0]} leads, epoch {during[1]}")
            self.check(f"same leader and epoch without server {id}", during == before)
            _until(lambda id=id, old=old: self._server(id)["pid"] not in (old, None), f"server {id} is started again")  # type: ignore[misc]
            _until(self._all_serve, "all servers serve")
        self.check("same leader and epoch afterwards", self.leader() == before)

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

    def _server(self, id: str) -> dict[str, Any]:
        return next(server for server in self.processes()["zookeepers"] if server["id"] == id)

    def _all_serve(self) -> bool:
        return all(server["mode"] != "unreachable" for server in self.cluster()["zookeeper"])


def _until(condition: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise SystemExit(f"the demo waited {WAIT_S:g} s in vain: {what}")
        time.sleep(0.1)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        demo = Demo(Path(directory) / "cluster")
        try:
            demo.start()
            demo.bounce_zookeeper()
            demo.pause_a_follower()
            demo.kill_the_leader()
        finally:
            if (Path(directory) / "cluster" / "cluster.json").exists():
                demo.holdfast("down")
        return demo.verdict()


if __name__ == "__main__":
    sys.exit(main())
