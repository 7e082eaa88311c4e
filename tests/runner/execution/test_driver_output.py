"""Output of a driver: bounded log files, a bounded tail, and disks that reject writes."""

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.runner.execution.driver_output import DriverOutput
from tests.harness.waiting import wait_until

LIMITED = """
import os, resource, sys
from pathlib import Path
from holdfast.runner.execution.driver_output import DriverOutput
reading, writing = os.pipe()
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
output = DriverOutput(reading, path)
os.write(writing, b"a" * 600 + b"\\n")
while not path.exists() or path.stat().st_size < 601: pass
os.write(writing, b"b" * 600 + b"\\n")
while not output.dropped_bytes: pass
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
os.write(writing, b"c" * 600 + b"\\n")
os.close(writing)
sys.exit(not output.close(20))
"""


class Pipe:
    """Pipe whose read end belongs to the `DriverOutput` under test."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        self.output: DriverOutput | None = None

    def print(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._writing, data) :]

    def close_writer(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    try:
        yield pipe
    finally:
        pipe.close_writer()
        if pipe.output is not None:
            assert pipe.output.close(20)


def numbered_lines(count: int) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(count))


def files(path: Path) -> list[Path]:
    """Return the log files, oldest first."""
    found = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, 50))]
    return [file for file in reversed(found) if file.exists()]


def test_log_is_complete_after_close(pipe: Pipe, tmp_path: Path) -> None:
    pipe.output = DriverOutput(pipe.reading, tmp_path / "driver.log")
    pipe.print(numbered_lines(1000))
    pipe.print("ärger".encode() + b"\xff")
    pipe.close_writer()
    assert pipe.output.close(20)
    assert pipe.output.ended
    assert (tmp_path / "driver.log").read_bytes() == numbered_lines(1000) + "ärger".encode() + b"\xff"
    assert (tmp_path / "driver.log").stat().st_mode & 0o777 == 0o600
    assert pipe.output.tail() == numbered_lines(1000).decode() + "ärger\ufffd"


def test_files_are_rotated_at_line_ends_and_the_oldest_is_deleted(pipe: Pipe, tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    pipe.output = DriverOutput(pipe.reading, path, file_bytes=1000, files=3, tail_bytes=100)
    pipe.print(numbered_lines(1000))
    pipe.close_writer()
    assert pipe.output.close(20)
    kept = [file.read_bytes() for file in files(path)]
    assert len(kept) == 3
    assert all(len(data) <= 1000 for data in kept)
    assert all(data.endswith(b"\n") for data in kept)
    assert numbered_lines(1000).endswith(b"".join(kept))
    assert len(b"".join(kept)) > 2000
    assert pipe.output.tail() == numbered_lines(1000)[-100:].decode()


def test_line_longer_than_a_file_is_split(pipe: Pipe, tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    pipe.output = DriverOutput(pipe.reading, path, file_bytes=1000, files=10)
    pipe.print(b"short\n" + b"x" * 5000 + b"\nend\n")
    pipe.close_writer()
    assert pipe.output.close(20)
    kept = [file.read_bytes() for file in files(path)]
    assert all(len(data) <= 1000 for data in kept)
    assert b"".join(kept) == b"short\n" + b"x" * 5000 + b"\nend\n"


def test_existing_log_is_continued_within_its_size_limit(pipe: Pipe, tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_bytes(numbered_lines(80))
    pipe.output = DriverOutput(pipe.reading, path, file_bytes=1000, files=2)
    pipe.print(b"one more\n" * 30)
    pipe.close_writer()
    assert pipe.output.close(20)
    assert b"".join(file.read_bytes() for file in files(path)) == numbered_lines(80) + b"one more\n" * 30
    assert path.stat().st_size <= 1000


def test_output_rejected_by_a_full_disk_is_dropped_and_reported_in_the_log(pipe: Pipe, tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.symlink_to("/dev/full")
    pipe.output = output = DriverOutput(pipe.reading, path)
    pipe.print(b"x" * 3_000_000)
    wait_until(lambda: output.dropped_bytes == 3_000_000, within_s=20, what="three megabytes are dropped")
    path.unlink()  # the disk has space again
    pipe.print(b"after\n")
    pipe.close_writer()
    assert output.close(20)
    assert path.read_text() == "\n[holdfast: 3000000 bytes of output are missing here: No space left on device]\nafter\n"
    assert output.tail().endswith("xafter\n")


def test_disk_that_fills_up_within_a_line_leaves_a_gap_notice(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    subprocess.run([sys.executable, "-c", LIMITED, str(path)], check=True, timeout=60)
    assert path.read_bytes() == (
        b"a" * 600
        + b"\n"
        + b"b" * 399
        + b"\n[holdfast: 202 bytes of output are missing here: File too large]\n"
        + b"c" * 600
        + b"\n"
    )


def test_deleted_directory_drops_output_without_an_error(pipe: Pipe, tmp_path: Path) -> None:
    directory = tmp_path / "attempt"
    directory.mkdir()
    pipe.output = output = DriverOutput(pipe.reading, directory / "driver.log", file_bytes=100)
    pipe.print(b"first\n")
    wait_until(lambda: output.tail() == "first\n", within_s=20, what="the first line is read")
    wait_until(lambda: (directory / "driver.log").stat().st_size, within_s=20, what="the first line is written")
    (directory / "driver.log").unlink()
    directory.rmdir()
    pipe.print(b"x" * 500 + b"\n")
    wait_until(lambda: output.dropped_bytes, within_s=20, what="output is dropped")
    directory.mkdir()
    pipe.print(b"last\n")
    pipe.close_writer()
    assert output.close(20)
    assert (directory / "driver.log").read_text().endswith("No such file or directory]\nlast\n")


def test_close_does_not_wait_for_a_writer_that_stays_open(pipe: Pipe, tmp_path: Path) -> None:
    pipe.output = DriverOutput(pipe.reading, tmp_path / "driver.log")
    pipe.output.close(0.1)
    wait_until(lambda: pipe.output is not None and pipe.output.ended, within_s=60, what="it has stopped reading")
    assert pipe.output.close()
    assert "driver-output" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.slow
def test_one_gigabyte_of_output_needs_little_memory(tmp_path: Path, report: Callable[[str], None]) -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(["head", "-c", "1000000000", "/dev/zero"], stdout=writing) as source:
        os.close(writing)
        before = resident_bytes()
        begun_at = time.monotonic()
        output = DriverOutput(reading, tmp_path / "driver.log", file_bytes=1_000_000, files=3)
        try:
            peak = before
            while not output.ended:
                peak = max(peak, resident_bytes())
                assert time.monotonic() < begun_at + 120
                time.sleep(0.005)
        finally:
            source.kill()
            assert output.close(20)
    took_s = time.monotonic() - begun_at
    report(f"output: 1 GB in {took_s:.1f} s, {(peak - before) / 1e6:.1f} MB more memory at the most")
    assert source.returncode == 0
    assert output.dropped_bytes == 0
    assert peak - before < 20_000_000
    assert sum(file.stat().st_size for file in files(tmp_path / "driver.log")) <= 3_000_000
    assert len(output.tail()) == 64 * 1024


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
