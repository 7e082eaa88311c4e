"""Health checks of a node on real files, and the monitor that runs them."""

import errno
import os
import threading
from pathlib import Path

import pytest

from holdfast.node.health.checks import AVAILABLE_BYTES_MIN, FREE_BYTES_MIN, check_disk, check_memory, check_storage
from holdfast.node.health.monitor import CHECK_TIMEOUT_S, GOOD_RESULTS_MIN, CheckResults, HealthCheck, HealthMonitor
from tests.harness.processes import run_on_small_disk, run_without_root_powers
from tests.harness.waiting import wait_until

FULL_DISK = """
import errno, resource, sys
from pathlib import Path
from holdfast.node.health.checks import check_disk, check_storage
disk = Path(sys.argv[1])
print(check_disk(disk, free_bytes_min=1) or "healthy")
with open(disk / "filler", "wb", buffering=0) as filler:
    try:
        while filler.write(b"0" * 4096) == 4096:
            pass
    except OSError as error:
        if error.errno == errno.EFBIG:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 1 << 20))
print(check_disk(disk, free_bytes_min=1))
print(check_storage(disk, "n1"))
print(sorted(path.name for path in disk.iterdir()))
"""


def test_writable_directory_with_free_space_is_healthy(tmp_path: Path) -> None:
    assert check_disk(tmp_path) == ""
    assert check_storage(tmp_path, "n1") == ""
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_a_problem_of_the_node_and_of_the_storage(tmp_path: Path) -> None:
    """A real file system of one megabyte. Where mounting is not permitted, the kernel refuses writes by a limit instead."""
    output = run_on_small_disk(FULL_DISK, tmp_path / "disk").splitlines()
    disk, full, limited = tmp_path / "disk", os.strerror(errno.ENOSPC), os.strerror(errno.EFBIG)
    node_problem = (
        f"its directory {disk} cannot be written ({limited})" if limited in output[1] else f"its disk is full ({full}: {disk})"
    )
    reason = limited if limited in output[1] else full
    assert output == ["healthy", node_problem, f"it cannot write to the storage {disk} ({reason})", "['filler']"]


def test_little_free_space_counts_as_a_full_disk(tmp_path: Path) -> None:
    problem = check_disk(tmp_path, free_bytes_min=1 << 62)
    assert problem == f"its disk is full (less than {(1 << 62) >> 20} MiB are free in {tmp_path})"
    assert FREE_BYTES_MIN == 64 << 20


def test_directory_without_write_permission_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    code = (
        "import sys; from pathlib import Path; from holdfast.node.health.checks import check_disk; "
        "print(check_disk(Path(sys.argv[1])))"
    )
    output = run_without_root_powers(code, tmp_path / "closed")
    assert output == f"its directory {tmp_path / 'closed'} cannot be written (Permission denied)"


def test_missing_storage_is_a_problem(tmp_path: Path) -> None:
    assert check_storage(tmp_path / "gone", "n1") == f"the storage {tmp_path / 'gone'} does not exist there"
    (tmp_path / "file").write_bytes(b"")
    assert check_disk(tmp_path / "file") == f"its directory {tmp_path / 'file'} cannot be written (Not a directory)"


@pytest.mark.parametrize(
    ("content", "healthy"),
    [
        (f"MemTotal: 9 kB\nMemAvailable:   {AVAILABLE_BYTES_MIN >> 10} kB\n", True),
        (f"MemAvailable: {(AVAILABLE_BYTES_MIN >> 10) - 1} kB\n", False),
        ("MemAvailable: unknown\n", True),
        ("", True),
    ],
)
def test_memory_below_the_minimum_is_a_problem(tmp_path: Path, content: str, healthy: bool) -> None:
    (tmp_path / "meminfo").write_text(content)
    assert check_memory(tmp_path / "meminfo") == ("" if healthy else "its memory is used up (less than 128 MiB are available)")
    assert check_memory(tmp_path / "missing") == ""


def test_problem_is_reported_at_once_and_is_over_only_after_several_good_results() -> None:
    results = CheckResults("its disk")
    assert results.problem(0.0) == ""
    results.finish("its disk is full")
    assert results.problem(0.0) == "its disk is full"
    for _ in range(GOOD_RESULTS_MIN - 1):
        results.finish("")
        assert results.problem(0.0) == "its disk is full"
    results.finish("its disk is full")
    for _ in range(GOOD_RESULTS_MIN):
        assert results.problem(0.0) == "its disk is full"
        results.finish("")
    assert results.problem(0.0) == ""


def test_check_that_hangs_is_a_problem_until_it_returns_good_results_again() -> None:
    results = CheckResults("its disk")
    results.start(100.0)
    assert results.problem(100.0 + CHECK_TIMEOUT_S - 0.1) == ""
    assert results.problem(100.0 + CHECK_TIMEOUT_S) == "its disk does not answer"
    for _ in range(GOOD_RESULTS_MIN):
        assert results.problem(200.0) == "its disk does not answer"
        results.finish("")
    assert results.problem(1000.0) == ""


def test_monitor_runs_each_check_in_its_own_thread() -> None:
    released, runs = threading.Event(), []

    def hanging() -> str:
        released.wait()
        return ""

    def failing() -> str:
        runs.append(1)
        return "its disk is full"

    monitor = HealthMonitor([HealthCheck("storage", hanging, 0.01), HealthCheck("disk", failing, 0.01)])
    assert monitor.health() == ""
    monitor.start()
    try:
        wait_until(lambda: len(runs) > 3, 30, "the check runs repeatedly beside the one that hangs")
        assert monitor.health() == "its disk is full"
    finally:
        monitor.stop()
        released.set()
