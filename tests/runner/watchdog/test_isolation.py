"""Deadlines and deaths that only the kernel can handle: the watchdog is paused or killed.

The driver starts daemons that have left its session and process group (`tests.harness.driver_with_daemons`).
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.isolation import CGROUP, NAMESPACE, SCAN
from holdfast.runner.watchdog.pid_namespace import NamespaceIdentity
from holdfast.runner.watchdog.proc_filesystem import read_process
from tests.harness.driver_with_daemons import NAMES, driver_with_daemons, killed_with_watchdog
from tests.harness.waiting import wait_until
from tests.harness.watchdog_process import WatchdogProcess, cgroup_problem, granted_level, now

LATE_S = 1.0
"""Upper limit between a deadline and the end of the last process: `Timing.kill_s`."""
TRIES = 5
"""Number of tries for time-critical tests: on a busy machine some fail, but a defect makes all of them fail."""


@pytest.mark.parametrize("level", [NAMESPACE, CGROUP])
def test_paused_watchdog_and_all_daemons_end_at_the_deadline(tmp_path: Path, level: str) -> None:
    """The test plays the runner and does nothing after the deadline was set, like a paused runner."""
    assert any(_late_s(tmp_path / str(number), level) < LATE_S for number in range(TRIES))


def _late_s(directory: Path, level: str) -> float:
    with driver_with_daemons(directory, level) as driver:
        promised = killed_with_watchdog(driver.watchdog.level)
        deadline = driver.pause_before_deadline()
        driver.wait_until_gone(*promised)
        assert driver.watchdog.process.wait(30) == -signal.SIGKILL
        assert [name for name in NAMES if driver.is_working(name)] == [name for name in NAMES if name not in promised]
        return max(driver.last_beat(name) or 0.0 for name in promised) - deadline


def test_scan_level_kills_only_the_driver_of_a_paused_watchdog_at_the_deadline(tmp_path: Path) -> None:
    """Documents the limit of the level: the runner or the agent kills the rest, by its mark."""
    with driver_with_daemons(tmp_path, SCAN) as driver:
        deadline = driver.pause_before_deadline()
        driver.wait_until_gone("driver")
        assert (driver.last_beat("driver") or 0.0) > deadline
        assert driver.watchdog.process.wait(30) == -signal.SIGKILL
        assert driver.is_working("marked") and driver.is_working("unmarked")
        assert process_tree.kill_tree(driver.watchdog.nonce) == []
        assert not driver.is_working("marked")
        assert driver.is_working("unmarked")


@pytest.mark.parametrize("level", [NAMESPACE, CGROUP])
def test_all_daemons_end_when_the_watchdog_is_killed(tmp_path: Path, level: str, report: Callable[[str], None]) -> None:
    with driver_with_daemons(tmp_path, level) as driver:
        init = driver.watchdog.init
        promised = killed_with_watchdog(driver.watchdog.level)
        driver.watchdog.process.kill()
        killed_at = now()
        driver.wait_until_gone(*promised)
        wait_until(lambda: init is None or read_process(init) is None, within_s=30, what="the namespace is empty")
        lasted_s = max(driver.last_beat(name) or 0.0 for name in promised) - killed_at
        assert lasted_s < LATE_S
        report(f"isolation: {driver.watchdog.level}: last sign of a daemon {lasted_s * 1000:.0f} ms after the watchdog's death")


def test_namespace_with_only_zombies_counts_as_empty(tmp_path: Path) -> None:
    """A paused parent does not reap the driver, like the first process of some containers. The init then never ends."""
    with driver_with_daemons(tmp_path, NAMESPACE) as driver:
        assert driver.watchdog.init is not None
        namespace = NamespaceIdentity.read(driver.watchdog.init)
        assert namespace is not None
        driver.pause()
        wait_until(namespace.kill, within_s=30, what="the namespace is empty")
        assert not any(driver.is_working(name) for name in NAMES)
        assert namespace.init.is_alive()
        driver.watchdog.process.send_signal(signal.SIGCONT)
        assert driver.watchdog.receive("exited") == signal.SIGKILL
        wait_until(lambda: not namespace.init.is_alive(), within_s=30, what="the init ends")


def test_scan_level_loses_unmarked_daemons_when_the_watchdog_is_killed(tmp_path: Path) -> None:
    """Documents the limit of the level."""
    with driver_with_daemons(tmp_path, SCAN) as driver:
        driver.watchdog.process.kill()
        driver.wait_until_gone("driver")
        assert driver.is_working("marked") and driver.is_working("unmarked")


@pytest.mark.parametrize("level", [NAMESPACE, CGROUP, SCAN])
def test_kill_leaves_no_daemon_behind(tmp_path: Path, level: str) -> None:
    with driver_with_daemons(tmp_path, level) as driver:
        driver.watchdog.send(kill=True)
        assert driver.watchdog.receive("ending") == "the runner requested it"
        assert driver.watchdog.receive("exited") == signal.SIGKILL
        driver.watchdog.receive("empty")
        assert not any(driver.is_working(name) for name in NAMES)
        assert driver.watchdog.process.wait(30) == 0
        assert driver.watchdog.cgroup is None or not Path(driver.watchdog.cgroup.path).exists()


@pytest.mark.parametrize("level", [NAMESPACE, CGROUP, SCAN])
def test_pid_of_the_driver_is_the_one_that_other_processes_see(tmp_path: Path, level: str) -> None:
    with driver_with_daemons(tmp_path, level) as driver:
        command = Path(f"/proc/{driver.driver}/cmdline").read_bytes().split(b"\0")
        assert f"{tmp_path}/driver".encode() in command
        own = Path(f"/proc/{driver.driver}/status").read_text().split("NSpid:")[1].split("\n")[0].split()
        assert own[-1] == (tmp_path / "driver.pid").read_text()
        assert own[0] == str(driver.driver)


def test_driver_starts_at_a_lower_level_if_the_probe_has_taken_the_last_namespace(tmp_path: Path) -> None:
    """The kernel still counts the namespace of the probe when the watchdog creates its own."""
    one_namespace = 'echo 1 > /proc/sys/user/max_pid_namespaces && exec "$0" "$@"'
    prefix = ("unshare", "--user", "--map-root-user", "sh", "-c", one_namespace)
    for number in range(TRIES):
        (directory := tmp_path / str(number)).mkdir()
        watchdog = WatchdogProcess(directory, prefix=prefix)
        try:
            message = watchdog.receive_message("ready")
            assert message["isolation"] == NAMESPACE or "No space left on device" in message["problem"], message
            watchdog.send(deadline=now() + 600)
            watchdog.start("sh", "-c", "exit 4")
            watchdog.receive("started")
            status = watchdog.receive("exited")
            assert isinstance(status, int) and os.waitstatus_to_exitcode(status) == 4
        finally:
            watchdog.kill()


def test_drivers_of_a_machine_have_different_pids_in_their_namespaces(tmp_path: Path) -> None:
    pids = set()
    for number in range(3):
        with driver_with_daemons(tmp_path / str(number), NAMESPACE):
            pids.add((tmp_path / str(number) / "driver.pid").read_text())
    assert len(pids) > 1


def test_user_without_privileges_gets_a_namespace(tmp_path: Path) -> None:
    """In its user namespace the driver still has the user's own id, and so the user's own files."""
    watchdog = WatchdogProcess(tmp_path, prefix=("unshare", "--user", "--map-user=1000", "--map-group=1000"))
    try:
        watchdog.receive_ready()
        watchdog.send(deadline=now() + 600)
        watchdog.start("sh", "-c", f"id -u; id -g; stat -c %u {tmp_path}; grep CapEff /proc/self/status; exit 4")
        watchdog.receive("started")
        status = watchdog.receive("exited")
        assert isinstance(status, int) and os.waitstatus_to_exitcode(status) == 4
        watchdog.receive("ending")
        watchdog.receive("empty")
        assert watchdog.log.read_text().split() == ["1000", "1000", "1000", "CapEff:", "0000000000000000"]
    finally:
        watchdog.kill()


CHANGE_ROOT = """
for entry in /*; do
    if [ -L "$entry" ]; then cp -P "$entry" "$0$entry"
    elif [ -d "$entry" ]; then mkdir "$0$entry" && mount --rbind "$entry" "$0$entry"
    fi
done
exec chroot "$0" "$@"
"""
"""Runs a command in a chroot with the directories of the machine, whose root directory is no mount point."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root directory")
def test_namespace_is_granted_in_a_chroot(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    watchdog = WatchdogProcess(tmp_path, prefix=("unshare", "--mount", "sh", "-c", CHANGE_ROOT, str(root)))
    try:
        watchdog.receive_ready()
        watchdog.send(deadline=now() + 600)
        watchdog.start("sh", "-c", "test -e /proc/1 && ! mountpoint --quiet / && exit 4")
        watchdog.receive("started")
        status = watchdog.receive("exited")
        assert isinstance(status, int) and os.waitstatus_to_exitcode(status) == 4
        watchdog.receive("ending")
        watchdog.receive("empty")
    finally:
        watchdog.kill()


@pytest.mark.parametrize("limit", ["max_pid_namespaces", "max_mnt_namespaces"])
def test_driver_starts_at_a_lower_level_where_the_system_grants_no_namespace(tmp_path: Path, limit: str) -> None:
    """A limit of 0 holds within a user namespace. With the second limit the system grants only half of what is needed."""
    limited = f'echo 0 > /proc/sys/user/{limit} && exec "$0" "$@"'
    watchdog = WatchdogProcess(tmp_path, prefix=("unshare", "--user", "--map-root-user", "sh", "-c", limited))
    try:
        message = watchdog.receive_message("ready")
        assert (message["isolation"], message["init"]) == (granted_level(CGROUP), None), message
        no_cgroup = f"; no cgroup: {cgroup_problem()}" if cgroup_problem() else ""
        assert message["problem"] == f"unshare: No space left on device{no_cgroup}"
        watchdog.send(deadline=now() + 600)
        watchdog.start("sh", "-c", "(setsid env -i sleep 600 &); exit 4")
        watchdog.receive("started")
        status = watchdog.receive("exited")
        assert isinstance(status, int) and os.waitstatus_to_exitcode(status) == 4
        watchdog.receive("ending")
        watchdog.receive("empty")
    finally:
        watchdog.kill()
