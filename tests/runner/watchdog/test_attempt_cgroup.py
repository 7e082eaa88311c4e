"""Cgroup of an attempt, with real processes. Where the system grants no cgroup, the tests check the fallback to the search.

`WatchdogProcess.receive_ready` compares the level in force with a probe, and its `cgroup` is None at the level SCAN.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.runner.watchdog import attempt_cgroup, isolation
from holdfast.runner.watchdog.attempt_cgroup import CgroupIdentity, probe_cgroup, remove_leftovers
from holdfast.runner.watchdog.cgroup_location import find_own_cgroup, read_mounts
from holdfast.runner.watchdog.isolation import CGROUP, ISOLATION_VARIABLE, SCAN
from holdfast.runner.watchdog.proc_filesystem import read_process
from tests.harness.driver_with_daemons import NAMES, driver_with_daemons
from tests.harness.waiting import wait_until
from tests.harness.watchdog_process import WatchdogProcess, cgroup_problem, granted_level, now, stop

IN_NEW_NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
ENTER_AS_OTHER_USER = 'echo 0 > {procs} && chmod 444 {procs} && exec unshare --user --map-user=1000 --map-group=1000 "$0" "$@"'
NEVER_ALIVE = 1
"""Start time that none of the processes of these tests has."""


def own_cgroups(creator: int) -> list[Path]:
    """Return the cgroups below the own one that the process with this pid has created."""
    return [] if cgroup_problem() else list(Path(find_own_cgroup()).glob(f"holdfast-{creator}-*"))


def test_daemon_without_environment_is_in_the_cgroup_of_the_driver(tmp_path: Path) -> None:
    with driver_with_daemons(tmp_path, CGROUP) as driver:
        places = {Path(f"/proc/{pid}/cgroup").read_text() for name in NAMES for pid in driver.pids(name)}
        outside = Path(f"/proc/{driver.watchdog.process.pid}/cgroup").read_text()
        assert len(places) == 1
        assert (places == {outside}) == (driver.watchdog.level == SCAN)


def test_daemons_end_with_the_watchdog_although_the_killer_is_stopped(tmp_path: Path) -> None:
    """The kernel continues the killer."""
    with driver_with_daemons(tmp_path, CGROUP) as driver:
        if driver.watchdog.cgroup is None:
            return
        stop(driver.watchdog.killer())
        driver.watchdog.process.kill()
        driver.wait_until_gone(*NAMES)


def test_daemons_survive_watchdog_and_killer_until_the_runner_or_agent_kills_the_cgroup(tmp_path: Path) -> None:
    """Documents the limit of the level: the test then does what the runner and the agent do."""
    with driver_with_daemons(tmp_path, CGROUP) as driver:
        cgroup = driver.watchdog.cgroup
        if cgroup is None:
            return
        driver.pause()
        driver.watchdog.killer().send_signal(signal.SIGKILL)
        driver.watchdog.process.kill()
        driver.wait_until_gone("driver")
        assert driver.is_working("marked") and driver.is_working("unmarked")
        wait_until(cgroup.kill, within_s=30, what="the cgroup is empty")
        assert not any(driver.is_working(name) for name in NAMES)
        assert not Path(cgroup.path).exists()
        assert cgroup.kill()


def test_driver_survives_its_killer_and_is_still_killed_on_request(tmp_path: Path) -> None:
    with driver_with_daemons(tmp_path, CGROUP) as driver:
        if driver.watchdog.cgroup is not None:
            killer = driver.watchdog.killer()
            killer.send_signal(signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{killer.pid}").exists(), within_s=30, what="the killer is reaped")
        assert all(driver.is_working(name) for name in NAMES)
        driver.watchdog.send(kill=True)
        for kind in ("ending", "exited", "empty"):
            driver.watchdog.receive(kind)
        assert not any(driver.is_working(name) for name in NAMES)


@pytest.mark.parametrize("hidden_by", ["mount -t tmpfs none {parent}", "umount -l {mount}"], ids=["covered", "unmounted"])
def test_agent_that_does_not_see_the_hierarchy_kills_the_processes_in_the_cgroup(tmp_path: Path, hidden_by: str) -> None:
    """A missing directory proves nothing: the agent may run in another mount namespace than the watchdog."""
    with driver_with_daemons(tmp_path, CGROUP) as driver:
        cgroup = driver.watchdog.cgroup
        if cgroup is None:
            return
        driver.pause()
        driver.watchdog.killer().send_signal(signal.SIGKILL)
        driver.watchdog.process.kill()
        driver.wait_until_gone("driver")
        kill = f"from {CgroupIdentity.__module__} import *; print(CgroupIdentity({cgroup.path!r}, {cgroup.number}).kill())"
        mount = next(point for _, point in read_mounts(Path("/proc/self/mountinfo").read_text()))
        hide = hidden_by.format(parent=Path(cgroup.path).parent, mount=mount)
        command = ("unshare", "--mount", "sh", "-c", f'{hide} && exec "$0" "$@"', sys.executable, "-c", kill)

        def kill_hidden() -> bool:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"

        assert not kill_hidden()
        wait_until(kill_hidden, within_s=30, what="the cgroup is empty")
        assert not any(driver.is_working(name) for name in NAMES)
        wait_until(cgroup.kill, within_s=30, what="the cgroup is removed")


def test_cgroup_with_the_same_path_but_another_number_is_left_alone(tmp_path: Path) -> None:
    with driver_with_daemons(tmp_path, CGROUP) as driver:
        cgroup = driver.watchdog.cgroup
        if cgroup is None:
            return
        assert CgroupIdentity(cgroup.path, cgroup.number + 1).kill()
        assert all(driver.is_working(name) for name in NAMES)


def test_process_that_enters_the_cgroup_while_it_is_removed_is_not_overlooked() -> None:
    """In each round, a child enters the cgroup at a slightly different time. One round in ten failed before."""
    if cgroup_problem():
        return
    with outer_cgroup() as outer:
        for round in range(100):
            check_late_entry(outer / str(round), delay_s=round * 2e-6)


def check_late_entry(path: Path, *, delay_s: float) -> None:
    path.mkdir()
    cgroup = CgroupIdentity(str(path), path.stat().st_ino)
    reading, writing = os.pipe()
    with open(path / "cgroup.procs", "wb", buffering=0) as procs:
        if not (child := os.fork()):
            enter_cgroup(procs.fileno(), writing, delay_s)
    try:
        os.read(reading, 1)
        assert not (cgroup.kill() and path.exists())
    finally:
        os.close(reading)
        os.close(writing)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        wait_until(cgroup.kill, within_s=30, what="the cgroup is removed")


def enter_cgroup(procs: int, ready: int, delay_s: float) -> None:
    """Run as a child: report, enter the cgroup after the delay, and wait."""
    try:
        os.write(ready, b".")
        enter_at = time.perf_counter() + delay_s
        while time.perf_counter() < enter_at:
            pass
        os.write(procs, b"0")
        time.sleep(600)
    finally:
        os._exit(0)


def test_path_that_is_no_cgroup_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "missing"):
        number = path.stat().st_ino + 1 if path.exists() else 1
        assert CgroupIdentity(str(path), number).kill()
    assert (tmp_path / "file").exists()


def test_attempt_ends_without_a_grace_period_if_the_driver_leaves_nothing_behind(tmp_path: Path) -> None:
    watchdog = WatchdogProcess(tmp_path, level=CGROUP)
    try:
        watchdog.receive_ready()
        watchdog.send(deadline=now() + 600)
        watchdog.start("true")
        for kind in ("started", "exited"):
            watchdog.receive(kind)
        exited_at = time.monotonic()
        for kind in ("ending", "empty"):
            watchdog.receive(kind)
        assert time.monotonic() - exited_at < 1.5
        assert watchdog.process.wait(30) == 0
        assert own_cgroups(watchdog.process.pid) == []
    finally:
        watchdog.kill()


def test_cgroups_that_the_driver_creates_are_removed_too(tmp_path: Path) -> None:
    watchdog = WatchdogProcess(tmp_path, level=CGROUP)
    try:
        watchdog.receive_ready()
        watchdog.send(deadline=now() + 600)
        if watchdog.cgroup is not None:
            nested = f"{watchdog.cgroup.path}/inner/deep"
            script = f"mkdir -p {nested}; (echo 0 > {nested}/cgroup.procs; setsid env -i sleep 600) & sleep 600"
            watchdog.start("sh", "-c", script)
            watchdog.receive("started")
            procs = Path(nested, "cgroup.procs")
            wait_until(lambda: procs.exists() and procs.read_text(), within_s=30, what="a process is in it")
            assert not watchdog.cgroup.kill()
            wait_until(watchdog.cgroup.kill, within_s=30, what="the cgroup is empty")
            assert not Path(watchdog.cgroup.path).exists()
            for kind in ("exited", "ending", "empty"):
                watchdog.receive(kind)
    finally:
        watchdog.kill()


# Probe


def test_probe_leaves_nothing_behind(report: Callable[[str], None]) -> None:
    """The probe must be quick too, because each start of a watchdog includes it."""
    probe = (
        "import os, time; from holdfast.runner.watchdog.isolation import find_level; begin = time.monotonic();"
        "level = find_level()[0]; print(os.getpid(), level, time.monotonic() - begin)"
    )
    environment = {**os.environ, ISOLATION_VARIABLE: CGROUP}
    answer = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    pid, level, took_s = answer.stdout.split()
    report(f"isolation: the probe for {level} took {float(took_s) * 1000:.1f} ms")
    assert level == granted_level(CGROUP)
    assert own_cgroups(int(pid)) == []


def test_kernel_without_cgroup_kill_grants_no_cgroup(tmp_path: Path) -> None:
    """In an ordinary directory a new directory has no cgroup.kill either."""
    with pytest.raises(OSError, match=r"the kernel has no cgroup.kill, which needs Linux 5\.14"):
        probe_cgroup(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "mount --bind {own} {own} && mount -o remount,bind,ro {own}",
            "cannot create a cgroup in {own}: Read-only file system",
        ),
        ("mount -t tmpfs none {own}", "is not visible in"),
    ],
    ids=["read-only", "hidden"],
)
def test_watchdog_searches_in_proc_where_it_cannot_create_a_cgroup(tmp_path: Path, change: str, problem: str) -> None:
    prepare, expected = "true", cgroup_problem()
    if not cgroup_problem():
        own = find_own_cgroup()
        prepare, expected = change.format(own=own), problem.format(own=own)
    check_fallback(tmp_path, (*IN_NEW_NAMESPACES, f'{prepare} && exec "$0" "$@"'), expected)


def test_level_is_scan_if_the_limit_of_cgroups_is_reached_after_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    if cgroup_problem():
        return
    monkeypatch.setenv(ISOLATION_VARIABLE, CGROUP)
    monkeypatch.setattr(attempt_cgroup, "find_problem", lambda: "")
    with outer_cgroup() as outer:
        monkeypatch.setattr(isolation, "find_own_cgroup", lambda: str(outer))
        (outer / "cgroup.max.descendants").write_text("0")
        created, level, problem = isolation.isolate_driver()
    assert (created, level) == (None, SCAN)
    assert problem.startswith(f"{ISOLATION_VARIABLE} is set; no cgroup: cannot create a cgroup in {outer}: "), problem


def test_watchdog_searches_in_proc_where_it_cannot_move_a_process(tmp_path: Path) -> None:
    """A process needs write access to `cgroup.procs` of the cgroup that it leaves."""
    if cgroup_problem():
        check_fallback(tmp_path, (), cgroup_problem())
        return
    with outer_cgroup() as outer:
        procs = f"{outer}/cgroup.procs"
        expected = f"cannot move a process into a cgroup in {outer}: Permission denied"
        check_fallback(tmp_path, ("sh", "-c", ENTER_AS_OTHER_USER.format(procs=procs)), expected)
        assert [path for path in outer.iterdir() if path.is_dir()] == []


def test_problem_with_a_cgroup_whose_name_is_no_text_is_text(tmp_path: Path) -> None:
    """Otherwise the record of the node could not be read."""
    if cgroup_problem():
        check_fallback(tmp_path, (), cgroup_problem())
        return
    with outer_cgroup(os.fsdecode(b"test-\xff")) as outer:
        prefix = ("sh", "-c", ENTER_AS_OTHER_USER.format(procs=f"{outer}/cgroup.procs"))
        check_fallback(tmp_path, prefix, f"test-\N{REPLACEMENT CHARACTER}-{os.getpid()}: Permission denied")


def check_fallback(directory: Path, prefix: Sequence[str], problem: str) -> None:
    """Start a watchdog that gets no cgroup because of `problem`, and a driver."""
    watchdog = WatchdogProcess(directory, level=CGROUP, prefix=prefix)
    try:
        message = watchdog.receive_message("ready")
        assert (message["isolation"], message["init"], message["cgroup"]) == (SCAN, None, None), message
        assert message["problem"].startswith(f"{ISOLATION_VARIABLE} is set; no cgroup: "), message
        assert problem in message["problem"]
        watchdog.send(deadline=now() + 600)
        watchdog.start("sh", "-c", "exit 4")
        watchdog.receive("started")
        status = watchdog.receive("exited")
        assert isinstance(status, int) and os.waitstatus_to_exitcode(status) == 4
    finally:
        watchdog.kill()


@contextlib.contextmanager
def outer_cgroup(name: str = "test") -> Iterator[Path]:
    """Create a cgroup below the own one."""
    outer = Path(find_own_cgroup()) / f"{name}-{os.getpid()}"
    outer.mkdir()
    try:
        yield outer
    finally:
        outer.rmdir()


def test_user_without_privileges_gets_a_cgroup_below_one_of_its_own(tmp_path: Path) -> None:
    """In this user namespace the watchdog has no privileges, but the user owns the cgroup, as with `Delegate=yes`."""
    unprivileged = 'exec unshare --user --map-user=1000 --map-group=1000 "$0" "$@"'
    if cgroup_problem():
        check_fallback(tmp_path, ("sh", "-c", unprivileged), "")
        return
    with outer_cgroup() as outer:
        enter = f"echo 0 > {outer}/cgroup.procs && {unprivileged}"
        check_kill_in_cgroup(tmp_path, ("sh", "-c", enter), outer)


def test_watchdog_finds_its_cgroup_in_a_cgroup_namespace(tmp_path: Path) -> None:
    """The mount is older than the namespace: its root is above the root of the namespace, whose name is not visible."""
    if cgroup_problem():
        with pytest.raises(OSError, match="cgroup"):
            find_own_cgroup()
        return
    with outer_cgroup() as outer:
        enter = f'echo 0 > {outer}/cgroup.procs && exec unshare --user --map-root-user --cgroup "$0" "$@"'
        check_kill_in_cgroup(tmp_path, ("sh", "-c", enter), outer)


def test_watchdog_uses_the_writable_one_of_several_mounts(tmp_path: Path) -> None:
    prepare = "true"
    if not cgroup_problem():
        copy = tmp_path / "copy"
        copy.mkdir()
        prepare = f"mount --bind {find_own_cgroup()} {copy} && mount -o remount,bind,ro {copy}"
    watchdog = WatchdogProcess(tmp_path, level=CGROUP, prefix=(*IN_NEW_NAMESPACES, f'{prepare} && exec "$0" "$@"'))
    try:
        watchdog.receive_ready()
    finally:
        watchdog.kill()


def test_mount_point_whose_name_is_no_text_does_not_prevent_the_probe(tmp_path: Path) -> None:
    """The list of mounts contains the name as it is. It may be on a disk of another system."""
    prepare = f'name=$(printf "{tmp_path}/\\377") && mkdir "$name" && mount -t tmpfs none "$name" && exec "$0" "$@"'
    watchdog = WatchdogProcess(tmp_path, level=CGROUP, prefix=(*IN_NEW_NAMESPACES, prepare))
    try:
        watchdog.receive_ready()
    finally:
        watchdog.kill()


def check_kill_in_cgroup(directory: Path, prefix: Sequence[str], parent: Path) -> None:
    """Start a watchdog that creates a cgroup in `parent`, and kill its driver, which has left a daemon behind."""
    watchdog = WatchdogProcess(directory, level=CGROUP, prefix=prefix)
    try:
        watchdog.receive_ready()
        assert watchdog.cgroup is not None and Path(watchdog.cgroup.path).parent == parent
        watchdog.send(deadline=now() + 600)
        watchdog.start("sh", "-c", "(setsid env -i sleep 600 &); sleep 600")
        watchdog.receive("started")
        procs = Path(watchdog.cgroup.path, "cgroup.procs")
        wait_until(lambda: len(procs.read_text().split()) == 3, within_s=30, what="shell, daemon and sleep run")
        pids = procs.read_text().split()
        watchdog.send(kill=True)
        for kind in ("ending", "exited", "empty"):
            watchdog.receive(kind)
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        watchdog.kill()


# Leftovers


def test_only_empty_cgroups_of_dead_watchdogs_are_removed(tmp_path: Path) -> None:
    """`cgroup.events` of an ordinary directory stands for that of a cgroup."""
    own = read_process(os.getpid())
    assert own is not None
    kept = [f"holdfast-{own.pid}-{own.started}", f"holdfast-{own.pid}-x", "other", "holdfast-1", f"other-1-{NEVER_ALIVE}"]
    for name in (*kept, f"holdfast-{own.pid}-{NEVER_ALIVE}"):
        (tmp_path / name).mkdir()
    busy = tmp_path / f"holdfast-{os.getppid()}-{NEVER_ALIVE}"
    busy.mkdir()
    (busy / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    remove_leftovers(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, busy.name])


def test_cgroup_that_a_killed_watchdog_leaves_behind_is_removed(tmp_path: Path) -> None:
    with driver_with_daemons(tmp_path, CGROUP) as driver:
        cgroup = driver.watchdog.cgroup
        if cgroup is None:
            return
        driver.watchdog.process.kill()
        driver.wait_until_gone(*NAMES)
        driver.watchdog.process.wait()
        wait_until(lambda: "populated 0" in Path(cgroup.path, "cgroup.events").read_text(), within_s=30, what="it is empty")
        remove_leftovers(find_own_cgroup())
        assert Path(cgroup.path).exists(), "a watchdog in another PID namespace may just have created it"
        remove_leftovers(find_own_cgroup(), age_s_min=0)
        assert not Path(cgroup.path).exists()


def test_watchdog_removes_the_cgroups_of_watchdogs_that_were_killed_while_they_started(tmp_path: Path) -> None:
    """No runner and no agent knows of these."""
    if cgroup_problem():
        return
    left = Path(find_own_cgroup()) / f"holdfast-{os.getpid()}-{NEVER_ALIVE}"
    left.mkdir()
    watchdog = WatchdogProcess(tmp_path, level=CGROUP)
    try:
        watchdog.receive_ready()
        assert not left.exists()
        assert watchdog.cgroup is not None and Path(watchdog.cgroup.path).exists()
    finally:
        watchdog.kill()
