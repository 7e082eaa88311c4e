"""What is left when a runner is killed or paused: nothing. The runner is a process of its own, so that it can be.

Nothing here is bounded by how long it took: what does not come because of a runner's death would come at its deadline, which is
ten minutes away, or never.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.runner.watchdog import process_tree
from tests.harness.waiting import eventually

RUNNER = """
import asyncio, json, os, signal, subprocess, sys, time
from pathlib import Path
from holdfast.runner.watchdog_client import Supervision

def say(**fields):
    print(json.dumps(fields), flush=True)

def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)

def pause(supervision):
    deadline = now() + 1
    supervision.renew(deadline)
    say(deadline=deadline)
    os.kill(os.getpid(), signal.SIGSTOP)

async def main(nonce, directory, *command):
    output = Path(directory, "driver.log")
    supervision = await Supervision.begin(nonce=nonce, output=output, deadline=now() + 600)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, pause, supervision)
    driver = await supervision.start(command, os.environ, Path(directory))
    if "HOLD_THE_LINE" in os.environ:
        subprocess.Popen(["sleep", "600"], pass_fds=[supervision._socket.fileno()], stdout=subprocess.DEVNULL)
    say(driver=driver, watchdog=supervision._watchdog.pid)
    await supervision.emptied
    say(status=await supervision.exited, ending=supervision.ending, lost=supervision.lost)
    await supervision.close()

asyncio.run(main(*sys.argv[1:]))
"""
"""On SIGUSR1 it has a second to live, and is paused in the same breath."""

PATIENCE_S = 60.0

TREE = "trap '' TERM HUP INT; setsid sh -c 'sleep 600 & sleep 600' & setsid sleep 600 & sleep 600"
TREE_SIZE = 6

SPARK = """
import sys, time
from pyspark.sql import SparkSession

quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.extraJavaOptions", quick).getOrCreate()

directory = sys.argv[1]

def wait(number):
    open(f"{directory}/worker-{number}", "w").close()
    time.sleep(600)

spark.sparkContext.parallelize(range(2), 2).foreach(wait)
"""


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Runner:
    def __init__(self, directory: Path, *command: str, **variables: str) -> None:
        self.nonce = secrets.token_hex(8)
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, self.nonce, str(directory), *command],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )
        told = self.hear()
        self.driver: int = told["driver"]
        self.watchdog: int = told["watchdog"]

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def pids(self) -> list[int]:
        return [process.pid for process in process_tree.living(self.nonce)]

    def send(self, number: signal.Signals) -> float:
        self.process.send_signal(number)
        return time.monotonic()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        assert process_tree.kill(self.nonce) == []


Begin = Callable[..., Runner]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    runners: list[Runner] = []

    def begin(*command: str, **variables: str) -> Runner:
        runners.append(runner := Runner(tmp_path, *command, **variables))
        return runner

    yield begin
    for runner in runners:
        runner.end()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_when_a_runner_is_killed_its_tree_is_killed(begin: Begin, report: Callable[[str], None]) -> None:
    runner = begin("sh", "-c", TREE)
    eventually(lambda: len(runner.pids()) == TREE_SIZE, PATIENCE_S, "the whole tree")
    killed_at = runner.send(signal.SIGKILL)
    eventually(lambda: runner.pids() == [], PATIENCE_S, "nothing is left")
    took_s = time.monotonic() - killed_at
    report(f"runner death: the tree was gone {took_s * 1000:.0f} ms after the runner was killed")
    eventually(lambda: not alive(runner.watchdog), PATIENCE_S, "the watchdog ends too")


def test_a_runner_is_dead_though_somebody_holds_its_end_of_the_line(begin: Begin) -> None:
    runner = begin("sleep", "600", HOLD_THE_LINE="yes")
    children = Path(f"/proc/{runner.process.pid}/task/{runner.process.pid}/children").read_text().split()
    holder = next(int(child) for child in children if int(child) != runner.watchdog)
    try:
        runner.send(signal.SIGKILL)
        eventually(lambda: not alive(runner.watchdog), PATIENCE_S, "the watchdog has done its work")
        assert runner.pids() == []
        assert alive(holder)
    finally:
        os.kill(holder, signal.SIGKILL)


def test_when_a_runner_is_paused_its_tree_is_killed_at_the_deadline(begin: Begin, report: Callable[[str], None]) -> None:
    runner = begin("sh", "-c", TREE)
    eventually(lambda: len(runner.pids()) == TREE_SIZE, PATIENCE_S, "the whole tree")
    runner.send(signal.SIGUSR1)
    deadline: float = runner.hear()["deadline"]
    eventually(lambda: runner.pids() == [], PATIENCE_S, "nothing is left")
    late_s = now() - deadline
    report(f"runner death: the tree of a paused runner was gone {late_s * 1000:.0f} ms after the deadline")
    assert late_s >= 0
    eventually(lambda: not alive(runner.watchdog), PATIENCE_S, "the watchdog is certain of it")
    runner.send(signal.SIGCONT)
    assert runner.hear() == {"status": signal.SIGKILL, "ending": "the deadline has passed", "lost": False}
    assert runner.process.wait(30) == 0


def test_when_runner_and_watchdog_are_killed_the_driver_dies_and_the_rest_is_found(begin: Begin) -> None:
    runner = begin("sh", "-c", TREE)
    eventually(lambda: len(runner.pids()) == TREE_SIZE, PATIENCE_S, "the whole tree")
    os.kill(runner.watchdog, signal.SIGSTOP)
    runner.send(signal.SIGKILL)
    os.kill(runner.watchdog, signal.SIGKILL)
    eventually(lambda: not alive(runner.driver), PATIENCE_S, "the kernel kills the driver")
    assert len(runner.pids()) > 0
    assert process_tree.kill(runner.nonce) == []  # as the agent will


def test_a_driver_that_nobody_reads_any_more_dies_with_its_runner(begin: Begin) -> None:
    runner = begin("sh", "-c", "trap '' PIPE; while :; do cat /dev/zero; done")
    runner.send(signal.SIGSTOP)
    runner.send(signal.SIGKILL)
    eventually(lambda: runner.pids() == [], PATIENCE_S, "nothing is left")


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_its_java_and_its_workers_die_with_the_runner(
    begin: Begin, tmp_path: Path, report: Callable[[str], None]
) -> None:
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    script = tmp_path / "script.py"
    script.write_text(SPARK)
    runner = begin(sys.executable, str(script), str(tmp_path), PYSPARK_PYTHON=sys.executable)

    def commands() -> list[str]:
        found = (Path(f"/proc/{pid}/cmdline") for pid in runner.pids())
        return [path.read_bytes().replace(b"\0", b" ").decode() for path in found if path.exists()]

    def working() -> bool:
        assert runner.pids(), (tmp_path / "driver.log").read_text()
        return all((tmp_path / f"worker-{number}").exists() for number in range(2))

    eventually(working, within_s=240, what="two workers at work")
    running = commands()
    megabytes = process_tree.resident_bytes(runner.nonce) / 1e6
    assert sum(command.split()[0].endswith("/java") for command in running) == 1, running
    assert sum("-m pyspark.daemon" in command for command in running) >= 3, running
    killed_at = runner.send(signal.SIGKILL)
    eventually(lambda: runner.pids() == [], PATIENCE_S, "nothing is left")
    took_s = time.monotonic() - killed_at
    report(f"runner death: {len(running)} processes of Spark, {megabytes:.0f} MB, were gone {took_s * 1000:.0f} ms after it")
    eventually(lambda: not alive(runner.watchdog), PATIENCE_S, "the watchdog ends too")
