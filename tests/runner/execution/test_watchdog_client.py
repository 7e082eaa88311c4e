"""Watchdog client with real processes that resist being killed."""

import asyncio
import contextlib
import gc
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.driver_protocol.variables import NONCE
from holdfast.errors import Refused, Unavailable
from holdfast.runner.execution import watchdog_client
from holdfast.runner.execution.watchdog_client import WatchdogClient
from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.isolation import CGROUP, NAMESPACE, SCAN
from holdfast.runner.watchdog.pid_namespace import NamespaceIdentity
from tests.harness.driver_with_daemons import NAMES, BeatingProcesses
from tests.harness.waiting import wait_until, wait_until_async

TIMEOUT_S = 60.0
"""Time limit for events that only the tested code can cause. To verify a tree of short-lived processes can take ten seconds."""
LONG_S = 600.0

STUBBORN = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        os.execve("/bin/sleep", ["sleep", "600"], {})
time.sleep(600)
"""
"""Program that ignores SIGTERM, SIGINT and SIGHUP. Its grandchildren are orphans in other sessions, without the mark."""

SHORT_LIVED = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("up", flush=True)
for _ in range(3):
    if os.fork() == 0: break
until = time.monotonic() + 20
while time.monotonic() < until:
    if os.getsid(0) != os.getpid(): os.setsid()
    if os.fork(): os._exit(0)
"""
"""Four processes, each of which lives for a millisecond and starts a successor in another session."""

FORKING = """
import os, time
until = time.monotonic() + 5
print("up", flush=True)
while time.monotonic() < until:
    if os.fork() == 0:
        os.setsid()
        os.fork()
        time.sleep(600)
"""


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class WatchedDriver:
    def __init__(self, client: WatchdogClient, nonce: str, directory: Path) -> None:
        self.client = client
        self.nonce = nonce
        self.directory = directory

    async def start(self, *command: str) -> int:
        return await self.client.start_driver(command, os.environ, self.directory)

    async def python(self, script: str) -> int:
        return await self.start(sys.executable, "-S", "-c", script)

    def pids(self) -> list[int]:
        return [process.pid for process in process_tree.list_processes(self.nonce)]

    @property
    def watchdog(self) -> int:
        return self.client._watchdog.pid


@asynccontextmanager
async def watchdog(directory: Path, *, deadline_s: float = LONG_S) -> AsyncIterator[WatchedDriver]:
    nonce = secrets.token_hex(8)
    client = await WatchdogClient.start_watchdog(nonce=nonce, output=directory / "driver.log", deadline=now() + deadline_s)
    try:
        yield WatchedDriver(client, nonce, directory)
    finally:
        await client.close()
        assert process_tree.list_processes(nonce) == []


@pytest.fixture
def passive_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client leave everything to its watchdog, however long that takes on a busy machine."""
    monkeypatch.setattr(watchdog_client, "KILL_TIMEOUT_S", LONG_S)
    monkeypatch.setattr(watchdog_client, "OVERDUE_GRACE_S", LONG_S)


def descriptors() -> set[str]:
    links = (Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return {f"{link.name} {os.readlink(link)}" for link in links if link.is_symlink()}


def children(pid: int) -> set[str]:
    found: set[str] = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found |= set((thread / "children").read_text().split())
    return found


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run the test and assert that it leaves no descriptor and no child behind."""
    gc.collect()  # Kafka clients of earlier tests would otherwise open descriptors during this test
    before = descriptors(), children(os.getpid())
    asyncio.run(test)
    assert descriptors() - before[0] == set()
    assert children(os.getpid()) - before[1] == set()


@pytest.mark.slow
def test_driver_output_and_exit_status_are_reported(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sh", "-c", 'echo "$HOLDFAST_NONCE"; echo oh >&2; exit 3')
            assert os.waitstatus_to_exitcode(await driver.client.driver_exited) == 3
            await driver.client.tree_gone
            assert driver.client.kill_reason == "the driver has ended"
            assert not driver.client.watchdog_lost
        assert driver.client.output_tail() == f"{driver.nonce}\noh\n" == (tmp_path / "driver.log").read_text()

    run(test())


@pytest.mark.slow
def test_only_the_driver_carries_the_mark(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            assert await driver.start("sleep", "600") in driver.pids()
            assert len(driver.pids()) == 1

    run(test())


@pytest.mark.slow
def test_mark_of_an_outer_attempt_is_not_inherited(tmp_path: Path) -> None:
    outer = secrets.token_hex(8)

    async def test() -> None:
        os.environ[NONCE] = outer
        try:
            async with watchdog(tmp_path) as driver:
                await driver.start("sleep", "600")
                assert process_tree.list_processes(outer) == []
        finally:
            del os.environ[NONCE]

    run(test())


@pytest.mark.slow
@pytest.mark.usefixtures("passive_client")
@pytest.mark.parametrize("script", [STUBBORN, SHORT_LIVED, FORKING], ids=["stubborn", "short-lived", "forking"])
def test_resisting_tree_is_killed(tmp_path: Path, script: str, report: Callable[[str], None]) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.python(script)
            if script == STUBBORN:
                isolated = driver.client.isolated
                reaper = isolated.init.pid if isinstance(isolated, NamespaceIdentity) else driver.watchdog
                # The driver and the killer of a cgroup are children of the watchdog.
                orphans = {NAMESPACE: 2, CGROUP: 4, SCAN: 3}[driver.client.isolation]
                await wait_until_async(lambda: len(children(reaper)) == orphans, within_s=TIMEOUT_S, what="two orphans run")
            else:
                await wait_until_async(lambda: "up" in driver.client.output_tail(), within_s=TIMEOUT_S, what="it forks")
                await asyncio.sleep(0.3)
            started_at = time.monotonic()
            await driver.client.kill_tree()
            took_s = time.monotonic() - started_at
            assert not driver.client.watchdog_lost
            assert driver.client.kill_reason == "the runner requested it"
            assert await driver.client.driver_exited in (0, signal.SIGKILL)
            await driver.client.kill_tree()
        report(f"watchdog client: {script.splitlines()[-2].strip()!r} was gone with its tree after {took_s * 1000:.0f} ms")

    run(test())


def test_stopped_driver_is_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sleep", "600")
            driver.client.signal_driver(signal.SIGSTOP)
            await driver.client.kill_tree()
            assert await driver.client.driver_exited == signal.SIGKILL

    run(test())


@pytest.mark.slow
def test_later_deadline_replaces_an_earlier_one_for_watchdog_and_client(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sleep", "600")
            os.kill(driver.watchdog, signal.SIGSTOP)  # so that it receives both deadlines at once
            driver.client.set_deadline(now() + 0.5)
            driver.client.set_deadline(now() + LONG_S)
            await asyncio.sleep(0.6)
            os.kill(driver.watchdog, signal.SIGCONT)
            done, _ = await asyncio.wait({driver.client.tree_gone}, timeout=1.5)
            assert not done
            assert not driver.client.watchdog_lost

    run(test())


@pytest.mark.slow
@pytest.mark.usefixtures("passive_client")
def test_earlier_deadline_replaces_a_later_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sleep", "600")
            driver.client.set_deadline(now() + 0.2)
            await asyncio.wait_for(driver.client.tree_gone, TIMEOUT_S)
            assert driver.client.kill_reason == "the deadline has passed"
            assert await driver.client.driver_exited == signal.SIGKILL
            assert not driver.client.watchdog_lost

    run(test())


@pytest.mark.slow
@pytest.mark.usefixtures("passive_client")
def test_refusal_states_its_reason(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            with pytest.raises(Refused, match=r"^cannot run no-such-program: No such file or directory$"):
                await driver.start("no-such-program")
            with pytest.raises(Refused, match=r"^the driver's arguments and environment are too large$"):
                await driver.start("true", "x" * 5_000_000)
            await driver.start("sleep", "600")
            with pytest.raises(Refused, match=r"^a driver has been started already$"):
                await driver.start("sleep", "600")
            await driver.client.kill_tree()
        async with watchdog(tmp_path, deadline_s=-1) as driver:
            await driver.client.tree_gone
            with pytest.raises(Refused, match=r"^the driver could not be started: the deadline has passed$"):
                await driver.start("touch", str(tmp_path / "ran"))
        async with watchdog(tmp_path) as driver:
            driver.client.set_deadline(now() - 1)
            with pytest.raises(Refused, match="deadline"):
                await driver.start("touch", str(tmp_path / "ran"))
        assert not driver.client.driver_exited.done()
        assert not (tmp_path / "ran").exists()
        driver.client.set_deadline(now() + 1)  # after the end, calls have no effect
        driver.client.signal_driver(signal.SIGTERM)
        await driver.client.kill_tree()
        await driver.client.close()

    run(test())


@pytest.mark.slow
def test_client_kills_the_tree_after_the_watchdog_was_killed(tmp_path: Path, report: Callable[[str], None]) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sh", "-c", "setsid sleep 600 & trap '' TERM; sleep 600")
            await wait_until_async(lambda: len(driver.pids()) == 3, within_s=TIMEOUT_S, what="three processes run")
            started_at = time.monotonic()
            os.kill(driver.watchdog, signal.SIGKILL)
            await asyncio.wait_for(asyncio.shield(driver.client.tree_gone), TIMEOUT_S)
            report(f"watchdog client: tree gone {(time.monotonic() - started_at) * 1000:.0f} ms after its watchdog was killed")
            assert driver.pids() == []
            assert driver.client.watchdog_lost
            assert driver.client.kill_reason == "the watchdog was lost"
            assert await driver.client.driver_exited == signal.SIGKILL
            with pytest.raises(Refused):
                await driver.start("true")

    run(test())


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "paused"])
def test_kill_leaves_no_unmarked_daemon_behind_although_the_watchdog_fails(tmp_path: Path, end: signal.Signals) -> None:
    async def test() -> None:
        processes = BeatingProcesses(tmp_path)
        async with watchdog(tmp_path) as driver:
            await driver.start(*processes.command)
            await asyncio.to_thread(processes.wait_until_all_work)
            os.kill(driver.watchdog, end)
            await asyncio.wait_for(driver.client.kill_tree(), TIMEOUT_S)
            assert driver.client.watchdog_lost
            assert not any(processes.is_working(name) for name in NAMES)

    run(test())


@pytest.mark.slow
def test_client_kills_the_tree_at_the_deadline_if_the_watchdog_hangs(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sleep", "600")
            os.kill(driver.watchdog, signal.SIGSTOP)
            driver.client.set_deadline(deadline := now() + 0.3)
            await asyncio.wait_for(asyncio.shield(driver.client.tree_gone), TIMEOUT_S)
            assert now() > deadline
            assert driver.client.watchdog_lost
            assert driver.pids() == []

    run(test())


@pytest.mark.slow
def test_kill_succeeds_although_the_watchdog_hangs(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sleep", "600")
            os.kill(driver.watchdog, signal.SIGSTOP)
            await asyncio.wait_for(driver.client.kill_tree(), TIMEOUT_S)
            assert driver.client.watchdog_lost
            assert driver.pids() == []

    run(test())


@pytest.mark.slow
def test_hung_watchdog_does_not_start_the_driver_later(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            os.kill(driver.watchdog, signal.SIGSTOP)
            starting = asyncio.ensure_future(driver.start("touch", str(tmp_path / "ran"), "x" * 1_000_000))
            await asyncio.sleep(0)
            driver.client.set_deadline(now() - 1)
            with pytest.raises(Refused, match=r"^the driver could not be started: the watchdog was lost$"):
                await starting
        assert not (tmp_path / "ran").exists()

    run(test())


def test_client_takes_over_after_a_malformed_message(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sleep", "600")
            driver.client._channel._received += b"{nonsense}\n"
            driver.client.signal_driver(signal.SIGTERM)
            await asyncio.wait_for(asyncio.shield(driver.client.tree_gone), TIMEOUT_S)
            assert driver.client.watchdog_lost
            assert driver.pids() == []

    run(test())


@pytest.mark.slow
def test_client_does_not_reap_other_children_of_the_runner(tmp_path: Path) -> None:
    async def test() -> None:
        other = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.3; exit 4")
        async with watchdog(tmp_path) as first, watchdog(tmp_path / "..") as second:
            await first.start("sleep", "600")
            await second.start("sh", "-c", "exit 6")
            assert await other.wait() == 4
            assert os.waitstatus_to_exitcode(await second.client.driver_exited) == 6
            await first.client.kill_tree()

    run(test())


@pytest.mark.slow
def test_cancelled_wait_does_not_cancel_the_futures_of_the_client(tmp_path: Path) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sleep", "600")
            for future in (driver.client.driver_exited, driver.client.tree_gone):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(future, 0.01)
            await driver.client.kill_tree()

    run(test())


@pytest.mark.slow
def test_failed_start_for_lack_of_descriptors_leaks_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def test() -> None:
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        with ExitStack() as occupied:
            while (descriptor := os.open("/dev/null", os.O_RDONLY)) <= highest:
                occupied.callback(os.close, descriptor)  # leave no unused number below the highest
            os.close(descriptor)
            outcomes = [await start_with(descriptor + spare) for spare in range(16)]
        assert {"cannot start a watchdog: Too many open files", "started"} == set(outcomes)

    async def start_with(descriptors: int) -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, limits[1]))
        try:
            async with watchdog(tmp_path):
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                return "started"
        except Unavailable as error:
            return str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    run(test())


def test_watchdog_that_does_not_start_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        with pytest.raises(Unavailable, match=r"^the watchdog did not start$"):
            async with watchdog(tmp_path):
                pass

    monkeypatch.setenv("PYTHONHOME", "/no/such/place")
    run(test())


@pytest.mark.slow
def test_large_output_blocks_neither_the_driver_nor_the_event_loop(tmp_path: Path, report: Callable[[str], None]) -> None:
    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            await driver.start("sh", "-c", "head -c 300000000 /dev/zero; echo done")
            turns = 0
            while "done" not in driver.client.output_tail():
                await asyncio.sleep(0.001)
                turns += 1
            await driver.client.tree_gone
            report(f"watchdog client: the event loop turned {turns} times while a driver printed 300 MB")
            assert turns > 10
        assert driver.client.output_tail().endswith("\0done\n")

    run(test())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 50_000_000


@pytest.mark.slow
def test_no_process_is_left_after_the_task_was_cancelled(tmp_path: Path) -> None:
    nonces: list[str] = []

    async def test() -> None:
        async with watchdog(tmp_path) as driver:
            nonces.append(driver.nonce)
            await driver.start("sleep", "600")
            asyncio.get_running_loop().call_later(0.1, asyncio.current_task().cancel)  # type: ignore[union-attr]  # this is a task
            await asyncio.sleep(600)

    with pytest.raises(asyncio.CancelledError):
        run(test())
    wait_until(lambda: process_tree.list_processes(nonces[0]) == [], within_s=TIMEOUT_S, what="no process is left")
