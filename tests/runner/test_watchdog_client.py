"""A driver under supervision, as a runner sees it. Real processes, which do not want to end."""

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

from holdfast.errors import Refused, Unavailable
from holdfast.runner import watchdog_client as supervising
from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog_client import Supervision
from tests.harness.waiting import eventually, soon

PATIENCE_S = 60.0
"""For what would never come by itself. Where processes come and go all the time, to be certain of a tree takes ten seconds."""
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
"""Ignores every polite signal; its grandchildren are in sessions of their own, orphans, and carry no mark."""

COMETS = """
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
"""Four processes, each of which lives for a millisecond and leaves a successor in a session of its own."""

BREEDER = """
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


class Attempt:
    def __init__(self, supervision: Supervision, nonce: str, directory: Path) -> None:
        self.supervision = supervision
        self.nonce = nonce
        self.directory = directory

    async def start(self, *command: str) -> int:
        return await self.supervision.start(command, os.environ, self.directory)

    async def python(self, script: str) -> int:
        return await self.start(sys.executable, "-S", "-c", script)

    def pids(self) -> list[int]:
        return [process.pid for process in process_tree.living(self.nonce)]

    @property
    def watchdog(self) -> int:
        return self.supervision._watchdog.pid


@asynccontextmanager
async def attempt(directory: Path, *, deadline_s: float = LONG_S) -> AsyncIterator[Attempt]:
    nonce = secrets.token_hex(8)
    supervision = await Supervision.begin(nonce=nonce, output=directory / "driver.log", deadline=now() + deadline_s)
    try:
        yield Attempt(supervision, nonce, directory)
    finally:
        await supervision.close()
        assert process_tree.living(nonce) == []


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that leaves everything to its watchdog, however long that takes on a busy machine."""
    monkeypatch.setattr(supervising, "IMPATIENCE_S", LONG_S)
    monkeypatch.setattr(supervising, "OVERDUE_S", LONG_S)


def descriptors() -> set[str]:
    links = (Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return {f"{link.name} {os.readlink(link)}" for link in links if link.is_symlink()}


def children(pid: int) -> set[str]:
    found: set[str] = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found |= set((thread / "children").read_text().split())
    return found


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run it, and see that it leaves no descriptor and no child behind."""
    gc.collect()  # a client of Kafka that an earlier test forgot opens descriptors with every connection that it tries
    before = descriptors(), children(os.getpid())
    asyncio.run(test)
    assert descriptors() - before[0] == set()
    assert children(os.getpid()) - before[1] == set()


def test_a_driver_runs_prints_and_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            pid = await it.start("sh", "-c", 'echo "$$ $HOLDFAST_NONCE"; echo oh >&2; exit 3')
            assert os.waitstatus_to_exitcode(await it.supervision.exited) == 3
            await it.supervision.emptied
            assert it.supervision.ending == "the driver has ended"
            assert not it.supervision.lost
        assert it.supervision.tail() == f"{pid} {it.nonce}\noh\n" == (tmp_path / "driver.log").read_text()

    run(test())


def test_the_driver_alone_carries_the_mark(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            assert await it.start("sleep", "600") in it.pids()
            assert len(it.pids()) == 1

    run(test())


def test_a_runner_that_is_itself_part_of_an_attempt_does_not_pass_its_mark_on(tmp_path: Path) -> None:
    outer = secrets.token_hex(8)

    async def test() -> None:
        os.environ[process_tree.VARIABLE] = outer
        try:
            async with attempt(tmp_path) as it:
                await it.start("sleep", "600")
                assert process_tree.living(outer) == []
        finally:
            del os.environ[process_tree.VARIABLE]

    run(test())


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("script", [STUBBORN, COMETS, BREEDER], ids=["stubborn", "comets", "breeder"])
def test_a_tree_that_does_not_want_to_die_is_killed(tmp_path: Path, script: str, report: Callable[[str], None]) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.python(script)
            if script == STUBBORN:
                await soon(lambda: len(children(it.watchdog)) == 3, within_s=PATIENCE_S, what="two orphans")
            else:
                await soon(lambda: "up" in it.supervision.tail(), within_s=PATIENCE_S, what="it forks")
                await asyncio.sleep(0.3)
            begun_at = time.monotonic()
            await it.supervision.kill()
            took_s = time.monotonic() - begun_at
            assert not it.supervision.lost
            assert it.supervision.ending == "the runner asked for it"
            assert await it.supervision.exited in (0, signal.SIGKILL)
            await it.supervision.kill()
        report(f"supervision: {script.splitlines()[-2].strip()!r} and its kin were gone {took_s * 1000:.0f} ms after the order")

    run(test())


def test_a_stopped_driver_is_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sleep", "600")
            it.supervision.signal(signal.SIGSTOP)
            await it.supervision.kill()
            assert await it.supervision.exited == signal.SIGKILL

    run(test())


def test_a_later_deadline_counts_for_watchdog_and_runner(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sleep", "600")
            os.kill(it.watchdog, signal.SIGSTOP)  # so that it hears of both at once, however long it takes to say them
            it.supervision.renew(now() + 0.5)
            it.supervision.renew(now() + LONG_S)
            await asyncio.sleep(0.6)
            os.kill(it.watchdog, signal.SIGCONT)
            done, _ = await asyncio.wait({it.supervision.emptied}, timeout=1.5)
            assert not done
            assert not it.supervision.lost

    run(test())


@pytest.mark.usefixtures("patient")
def test_an_earlier_deadline_counts_for_the_watchdog(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sleep", "600")
            it.supervision.renew(now() + 0.2)
            await asyncio.wait_for(it.supervision.emptied, PATIENCE_S)
            assert it.supervision.ending == "the deadline has passed"
            assert await it.supervision.exited == signal.SIGKILL
            assert not it.supervision.lost

    run(test())


@pytest.mark.usefixtures("patient")
def test_refusals_are_sentences(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            with pytest.raises(Refused, match=r"^cannot run no-such-program: No such file or directory$"):
                await it.start("no-such-program")
            with pytest.raises(Refused, match=r"^the driver's arguments and environment are too long$"):
                await it.start("true", "x" * 5_000_000)
            await it.start("sleep", "600")
            with pytest.raises(Refused, match=r"^a driver has been started already$"):
                await it.start("sleep", "600")
            await it.supervision.kill()
        async with attempt(tmp_path, deadline_s=-1) as it:
            await it.supervision.emptied
            with pytest.raises(Refused, match=r"^the driver could not be started: the deadline has passed$"):
                await it.start("touch", str(tmp_path / "ran"))
        async with attempt(tmp_path) as it:
            it.supervision.renew(now() - 1)
            with pytest.raises(Refused, match="deadline"):
                await it.start("touch", str(tmp_path / "ran"))
        assert not it.supervision.exited.done()
        assert not (tmp_path / "ran").exists()
        it.supervision.renew(now() + 1)  # after the end nothing happens
        it.supervision.signal(signal.SIGTERM)
        await it.supervision.kill()
        await it.supervision.close()

    run(test())


def test_a_watchdog_that_is_killed_is_noticed_and_its_tree_killed(tmp_path: Path, report: Callable[[str], None]) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sh", "-c", "setsid sleep 600 & trap '' TERM; sleep 600")
            await soon(lambda: len(it.pids()) == 3, within_s=PATIENCE_S, what="a tree of three")
            begun_at = time.monotonic()
            os.kill(it.watchdog, signal.SIGKILL)
            await asyncio.wait_for(asyncio.shield(it.supervision.emptied), PATIENCE_S)
            report(
                f"supervision: the tree was gone {(time.monotonic() - begun_at) * 1000:.0f} ms after its watchdog was killed"
            )
            assert it.pids() == []
            assert it.supervision.lost
            assert it.supervision.ending == "the watchdog was lost"
            assert await it.supervision.exited == signal.SIGKILL
            with pytest.raises(Refused):
                await it.start("true")

    run(test())


def test_a_watchdog_that_hangs_is_replaced_by_the_runner_at_the_deadline(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sleep", "600")
            os.kill(it.watchdog, signal.SIGSTOP)
            it.supervision.renew(deadline := now() + 0.3)
            await asyncio.wait_for(asyncio.shield(it.supervision.emptied), PATIENCE_S)
            assert now() > deadline
            assert it.supervision.lost
            assert it.pids() == []

    run(test())


def test_a_watchdog_that_hangs_does_not_keep_a_tree_from_being_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sleep", "600")
            os.kill(it.watchdog, signal.SIGSTOP)
            await asyncio.wait_for(it.supervision.kill(), PATIENCE_S)
            assert it.supervision.lost
            assert it.pids() == []

    run(test())


def test_a_watchdog_that_hangs_before_the_start_starts_nothing_later(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            os.kill(it.watchdog, signal.SIGSTOP)
            starting = asyncio.ensure_future(it.start("touch", str(tmp_path / "ran"), "x" * 1_000_000))
            await asyncio.sleep(0)
            it.supervision.renew(now() - 1)
            with pytest.raises(Refused, match=r"^the driver could not be started: the watchdog was lost$"):
                await starting
        assert not (tmp_path / "ran").exists()

    run(test())


def test_a_watchdog_that_talks_nonsense_is_replaced(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sleep", "600")
            it.supervision._line._received += b"{nonsense}\n"
            it.supervision.signal(signal.SIGTERM)
            await asyncio.wait_for(asyncio.shield(it.supervision.emptied), PATIENCE_S)
            assert it.supervision.lost
            assert it.pids() == []

    run(test())


def test_other_children_of_the_runner_are_its_own(tmp_path: Path) -> None:
    async def test() -> None:
        other = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.3; exit 4")
        async with attempt(tmp_path) as first, attempt(tmp_path / "..") as second:
            await first.start("sleep", "600")
            await second.start("sh", "-c", "exit 6")
            assert await other.wait() == 4
            assert os.waitstatus_to_exitcode(await second.supervision.exited) == 6
            await first.supervision.kill()

    run(test())


def test_to_give_up_waiting_harms_nobody_else(tmp_path: Path) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sleep", "600")
            for future in (it.supervision.exited, it.supervision.emptied):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(future, 0.01)
            await it.supervision.kill()

    run(test())


def test_without_descriptors_there_is_no_watchdog_and_nothing_leaks(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def test() -> None:
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        with ExitStack() as filling:
            while (descriptor := os.open("/dev/null", os.O_RDONLY)) <= highest:
                filling.callback(os.close, descriptor)  # no gaps below the highest
            os.close(descriptor)
            outcomes = [await begin_with(descriptor + spare) for spare in range(16)]
        assert {"cannot start a watchdog: Too many open files", "started"} == set(outcomes)

    async def begin_with(descriptors: int) -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, limits[1]))
        try:
            async with attempt(tmp_path):
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                return "started"
        except Unavailable as error:
            return str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    run(test())


def test_a_watchdog_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        with pytest.raises(Unavailable, match=r"^the watchdog did not start$"):
            async with attempt(tmp_path):
                pass

    monkeypatch.setenv("PYTHONHOME", "/no/such/place")
    run(test())


def test_much_output_stops_neither_the_driver_nor_the_event_loop(tmp_path: Path, report: Callable[[str], None]) -> None:
    async def test() -> None:
        async with attempt(tmp_path) as it:
            await it.start("sh", "-c", "head -c 300000000 /dev/zero; echo done")
            turns = 0
            while "done" not in it.supervision.tail():
                await asyncio.sleep(0.001)
                turns += 1
            await it.supervision.emptied
            report(f"supervision: the event loop turned {turns} times while a driver printed 300 MB")
            assert turns > 10
        assert it.supervision.tail().endswith("\0done\n")

    run(test())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 50_000_000


def test_nothing_is_left_when_the_loop_is_cancelled(tmp_path: Path) -> None:
    nonces: list[str] = []

    async def test() -> None:
        async with attempt(tmp_path) as it:
            nonces.append(it.nonce)
            await it.start("sleep", "600")
            asyncio.get_running_loop().call_later(0.1, asyncio.current_task().cancel)  # type: ignore[union-attr]
            await asyncio.sleep(600)

    with pytest.raises(asyncio.CancelledError):
        run(test())
    eventually(lambda: process_tree.living(nonces[0]) == [], within_s=PATIENCE_S, what="nothing is left")
