"""Death or pause of a runner: no process of its driver survives. The runner is a separate process here.

The tests assert no upper time limits: an event that the runner's death does not cause would come only at the deadline, ten
minutes later, or never.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.attempt_cgroup import CgroupIdentity
from holdfast.runner.watchdog.isolation import CGROUP, ISOLATION_VARIABLE, NAMESPACE, SCAN
from holdfast.runner.watchdog.proc_filesystem import read_process
from holdfast.zk.session.timing import Timing
from tests.harness.driver_with_daemons import NAMES, BeatingProcesses, killed_with_watchdog
from tests.harness.waiting import wait_until
from tests.harness.watchdog_process import granted_level, killer_of, stop

RUNNER = """
import asyncio, json, os, signal, subprocess, sys, time
from pathlib import Path
from holdfast.runner.execution.watchdog_client import WatchdogClient

def send(**fields):
    print(json.dumps(fields), flush=True)

def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)

def pause(client):
    deadline = now() + 1
    client.set_deadline(deadline)
    send(deadline=deadline)
    os.kill(os.getpid(), signal.SIGSTOP)

async def main(nonce, directory, *command):
    output = Path(directory, "driver.log")
    client = await WatchdogClient.start_watchdog(nonce=nonce, output=output, deadline=now() + 600)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, pause, client)
    driver = await client.start_driver(command, os.environ, Path(directory))
    if "KEEP_SOCKET_OPEN" in os.environ:
        subprocess.Popen(["sleep", "600"], pass_fds=[client._socket.fileno()], stdout=subprocess.DEVNULL)
    if "START_MARKED_PROCESS" in os.environ:
        subprocess.Popen(["sleep", "600"], env={"HOLDFAST_NONCE": nonce}, stdout=subprocess.DEVNULL)
    cgroup = client.isolated if client.isolation == "cgroup" else None
    send(driver=driver, watchdog=client._watchdog.pid, cgroup=cgroup and [cgroup.path, cgroup.number])
    await client.tree_gone
    send(status=await client.driver_exited, kill_reason=client.kill_reason, watchdog_lost=client.watchdog_lost)
    await client.close()

asyncio.run(main(*sys.argv[1:]))
"""
"""Runner that, on SIGUSR1, sets a deadline one second ahead and stops itself at once."""

TIMEOUT_S = 60.0
TRIES = 3
"""Number of tries for time-critical tests: on a busy machine some fail, but a defect makes all of them fail."""

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


class RunnerProcess:
    def __init__(self, directory: Path, *command: str, prefix: Sequence[str] = (), **variables: str) -> None:
        """Start the runner. `prefix` is a command that executes the rest of its arguments."""
        self.nonce = secrets.token_hex(8)
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", RUNNER, self.nonce, str(directory), *command],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )
        message = self.read_message()
        self.driver: int = message["driver"]
        self.watchdog: int = message["watchdog"]
        self._watchdog = read_process(self.watchdog)
        self.cgroup = None if message["cgroup"] is None else CgroupIdentity(*message["cgroup"])

    def read_message(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def pids(self) -> list[int]:
        return [process.pid for process in process_tree.list_processes(self.nonce)]

    def send(self, number: signal.Signals) -> float:
        self.process.send_signal(number)
        return time.monotonic()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        if self._watchdog is not None:
            self._watchdog.send_signal(signal.SIGKILL)  # it may be paused
        if self.cgroup is not None:
            wait_until(self.cgroup.kill, TIMEOUT_S, "the cgroup is empty")
        assert process_tree.kill_tree(self.nonce) == []


StartRunner = Callable[..., RunnerProcess]


@pytest.fixture
def start_runner(tmp_path: Path) -> Iterator[StartRunner]:
    runners: list[RunnerProcess] = []

    def start_runner(*command: str, **options: Any) -> RunnerProcess:
        runners.append(runner := RunnerProcess(tmp_path, *command, **options))
        return runner

    yield start_runner
    for runner in runners:
        runner.kill()


def timer_remaining_s(pid: int) -> float:
    """Return the time until the process's timer descriptor expires, or infinity if it is not set."""
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        if "it_value: (" in (text := info.read_text()):
            seconds, nanoseconds = text.split("it_value: (")[1].split(")")[0].split(",")
            return int(seconds) + int(nanoseconds) / 1e9 or float("inf")
    return float("inf")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_tree_is_killed_when_its_runner_is_killed(start_runner: StartRunner, report: Callable[[str], None]) -> None:
    runner = start_runner("sh", "-c", TREE)
    wait_until(lambda: len(runner.pids()) == TREE_SIZE, TIMEOUT_S, "the whole tree runs")
    killed_at = runner.send(signal.SIGKILL)
    wait_until(lambda: runner.pids() == [], TIMEOUT_S, "no process is left")
    took_s = time.monotonic() - killed_at
    report(f"runner death: the tree was gone {took_s * 1000:.0f} ms after the runner was killed")
    wait_until(lambda: not is_alive(runner.watchdog), TIMEOUT_S, "the watchdog exits")


def test_dead_runner_is_noticed_although_another_process_keeps_its_socket_open(start_runner: StartRunner) -> None:
    runner = start_runner("sleep", "600", KEEP_SOCKET_OPEN="yes")
    children = Path(f"/proc/{runner.process.pid}/task/{runner.process.pid}/children").read_text().split()
    holder = next(int(child) for child in children if int(child) != runner.watchdog)
    try:
        runner.send(signal.SIGKILL)
        wait_until(lambda: not is_alive(runner.watchdog), TIMEOUT_S, "the watchdog exits")
        assert runner.pids() == []
        assert is_alive(holder)
    finally:
        os.kill(holder, signal.SIGKILL)


@pytest.mark.slow
def test_tree_of_a_paused_runner_is_killed_at_the_deadline(start_runner: StartRunner, report: Callable[[str], None]) -> None:
    runner = start_runner("sh", "-c", TREE)
    wait_until(lambda: len(runner.pids()) == TREE_SIZE, TIMEOUT_S, "the whole tree runs")
    runner.send(signal.SIGUSR1)
    deadline: float = runner.read_message()["deadline"]
    wait_until(lambda: runner.pids() == [], TIMEOUT_S, "no process is left")
    late_s = now() - deadline
    report(f"runner death: the tree of a paused runner was gone {late_s * 1000:.0f} ms after the deadline")
    assert late_s >= 0
    wait_until(lambda: not is_alive(runner.watchdog), TIMEOUT_S, "the watchdog exits")
    runner.send(signal.SIGCONT)
    assert runner.read_message() == {"status": signal.SIGKILL, "kill_reason": "the deadline has passed", "watchdog_lost": False}
    assert runner.process.wait(30) == 0


@pytest.mark.slow
@pytest.mark.parametrize("level", [NAMESPACE, CGROUP, SCAN])
def test_deadline_holds_although_runner_and_watchdog_are_paused(
    start_runner: StartRunner, tmp_path: Path, level: str, report: Callable[[str], None]
) -> None:
    """At the level SCAN only the driver itself is certain to end; the agent kills the rest."""
    promised = killed_with_watchdog(granted_level(level))

    def late_s(directory: Path) -> float:
        directory.mkdir()
        processes = BeatingProcesses(directory)
        try:
            runner = start_runner(*processes.command, **{ISOLATION_VARIABLE: level})
            processes.wait_until_all_work()
            deadline = pause_with_watchdog(runner)
            processes.wait_until_gone(*promised)
            runner.send(signal.SIGCONT)
            if not runner.read_message()["watchdog_lost"]:
                return float("inf")  # the deadline passed before the watchdog was paused
        finally:
            processes.kill_all()
        return max(processes.last_beat(name) or 0.0 for name in promised) - deadline

    delays_s = (late_s(tmp_path / str(number)) for number in range(TRIES))
    in_time = next((delay_s for delay_s in delays_s if delay_s < Timing().kill_s), None)
    assert in_time is not None
    report(f"runner death: {level}: with runner and watchdog paused, the last process ended {in_time:.2f} s after the deadline")


def pause_with_watchdog(runner: RunnerProcess) -> float:
    """Pause the runner and, once it knows the deadline, the watchdog. Return the deadline."""
    runner.send(signal.SIGUSR1)
    deadline: float = runner.read_message()["deadline"]
    wait_until(lambda: timer_remaining_s(runner.watchdog) < 10, TIMEOUT_S, "the watchdog knows the deadline")
    os.kill(runner.watchdog, signal.SIGSTOP)
    return deadline


def test_whole_tree_dies_with_runner_and_watchdog(start_runner: StartRunner) -> None:
    runner = start_runner("sh", "-c", TREE)
    wait_until(lambda: len(runner.pids()) == TREE_SIZE, TIMEOUT_S, "the whole tree runs")
    os.kill(runner.watchdog, signal.SIGSTOP)
    runner.send(signal.SIGKILL)
    os.kill(runner.watchdog, signal.SIGKILL)
    wait_until(lambda: runner.pids() == [], TIMEOUT_S, "the kernel kills the tree")


def test_driver_dies_with_runner_and_watchdog_and_the_rest_of_the_tree_is_found(start_runner: StartRunner) -> None:
    runner = start_runner("sh", "-c", TREE, **{ISOLATION_VARIABLE: SCAN})
    wait_until(lambda: len(runner.pids()) == TREE_SIZE, TIMEOUT_S, "the whole tree runs")
    os.kill(runner.watchdog, signal.SIGSTOP)
    runner.send(signal.SIGKILL)
    os.kill(runner.watchdog, signal.SIGKILL)
    wait_until(lambda: not is_alive(runner.driver), TIMEOUT_S, "the kernel kills the driver")
    assert len(runner.pids()) > 0
    assert process_tree.kill_tree(runner.nonce) == []  # the agent does the same


def test_every_daemon_dies_with_runner_and_watchdog_in_a_cgroup(start_runner: StartRunner, tmp_path: Path) -> None:
    """Runner, watchdog and killer are stopped, then the first two killed. Without a cgroup only the driver ends."""
    promised = killed_with_watchdog(granted_level(CGROUP))
    processes = BeatingProcesses(tmp_path)
    try:
        runner = start_runner(*processes.command, **{ISOLATION_VARIABLE: CGROUP})
        processes.wait_until_all_work()
        runner.send(signal.SIGSTOP)
        os.kill(runner.watchdog, signal.SIGSTOP)
        if runner.cgroup is not None:
            stop(killer_of(runner.watchdog))
        runner.send(signal.SIGKILL)
        os.kill(runner.watchdog, signal.SIGKILL)
        processes.wait_until_gone(*promised)
        assert [name for name in NAMES if processes.is_working(name)] == [name for name in NAMES if name not in promised]
    finally:
        processes.kill_all()


def test_runner_kills_the_cgroup_after_the_deaths_of_watchdog_and_killer(
    start_runner: StartRunner, tmp_path: Path, report: Callable[[str], None]
) -> None:
    """Where the system grants no cgroup, the runner finds only the daemon with the mark."""
    processes = BeatingProcesses(tmp_path)
    try:
        runner = start_runner(*processes.command, **{ISOLATION_VARIABLE: CGROUP})
        processes.wait_until_all_work()
        if runner.cgroup is not None:
            killer_of(runner.watchdog).send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        os.kill(runner.watchdog, signal.SIGKILL)
        message = runner.read_message()
        report(f"runner death: the runner killed the cgroup {(time.monotonic() - killed_at) * 1000:.0f} ms after its watchdog")
        assert message == {"status": signal.SIGKILL, "kill_reason": "the watchdog was lost", "watchdog_lost": True}
        assert (runner.cgroup is None) == (granted_level(CGROUP) == SCAN)
        assert processes.is_working("unmarked") == (runner.cgroup is None)
        assert not processes.is_working("driver") and not processes.is_working("marked")
        assert runner.cgroup is None or not Path(runner.cgroup.path).exists()
    finally:
        processes.kill_all()


@pytest.mark.parametrize(
    "prefix", [(), ("unshare", "--user", "--map-user=1000", "--map-group=1000")], ids=["same user", "other user"]
)
def test_marked_process_outside_the_namespace_is_killed(start_runner: StartRunner, prefix: tuple[str, ...]) -> None:
    """The runner itself starts this process, as another service might do for the driver."""
    runner = start_runner("sh", "-c", "sleep 2", prefix=prefix, START_MARKED_PROCESS="yes")
    assert runner.pids()
    assert runner.read_message()["status"] == 0
    assert runner.pids() == []


def test_driver_that_blocks_on_a_full_pipe_dies_with_its_runner(start_runner: StartRunner) -> None:
    runner = start_runner("sh", "-c", "trap '' PIPE; while :; do cat /dev/zero; done")
    runner.send(signal.SIGSTOP)
    runner.send(signal.SIGKILL)
    wait_until(lambda: runner.pids() == [], TIMEOUT_S, "no process is left")


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_java_and_python_workers_of_spark_die_with_the_runner(
    start_runner: StartRunner, tmp_path: Path, report: Callable[[str], None]
) -> None:
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    script = tmp_path / "script.py"
    script.write_text(SPARK)
    runner = start_runner(sys.executable, str(script), str(tmp_path), PYSPARK_PYTHON=sys.executable)

    def commands() -> list[str]:
        paths = (Path(f"/proc/{pid}/cmdline") for pid in runner.pids())
        return [path.read_bytes().replace(b"\0", b" ").decode() for path in paths if path.exists()]

    def workers_run() -> bool:
        assert runner.pids(), (tmp_path / "driver.log").read_text()
        return all((tmp_path / f"worker-{number}").exists() for number in range(2))

    wait_until(workers_run, within_s=240, what="two workers run")
    running = commands()
    megabytes = process_tree.resident_bytes(runner.nonce) / 1e6
    assert sum(command.split()[0].endswith("/java") for command in running) == 1, running
    assert sum("-m pyspark.daemon" in command for command in running) >= 3, running
    killed_at = runner.send(signal.SIGKILL)
    wait_until(lambda: runner.pids() == [], TIMEOUT_S, "no process is left")
    took_s = time.monotonic() - killed_at
    report(f"runner death: {len(running)} processes of Spark, {megabytes:.0f} MB, were gone {took_s * 1000:.0f} ms after it")
    wait_until(lambda: not is_alive(runner.watchdog), TIMEOUT_S, "the watchdog exits")
