"""No class archive is built while the machine is overloaded."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.log import configure_logging
from holdfast.node.cds_keeper import CdsKeeper
from holdfast.runner.cds.archive import ArchiveDirectory, JavaRuntime
from holdfast.runner.cds.build import MachineBusy, build_if_missing
from holdfast.runner.cds.machine_load import find_overload
from tests.harness.waiting import wait_until_async

BUSY = "some avg10=98.90 avg60=88.10 avg300=50.63 total=253778064\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
IDLE = "some avg10=97.00 avg60=3.10 avg300=50.63 total=253778064\nfull avg10=0.00 avg60=99.00 avg300=0.00 total=0\n"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Environment with files that look like a Java and a Spark installation. Java cannot be executed, so a build fails."""
    for file in ("java/bin/java", "java/lib/modules", "spark/jars/a.jar"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file)
    return {"JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": str(tmp_path / "spark"), "PATH": ""}


@pytest.fixture
def archives(tmp_path: Path) -> ArchiveDirectory:
    (tmp_path / "archives").mkdir()
    return ArchiveDirectory(tmp_path / "archives")


def make_proc(tmp_path: Path, *, pressure: str | None = None, load: str | None = None) -> Path:
    proc = tmp_path / "proc"
    (proc / "pressure").mkdir(parents=True, exist_ok=True)
    if pressure is not None:
        (proc / "pressure" / "cpu").write_text(pressure)
    if load is not None:
        (proc / "loadavg").write_text(load)
    return proc


@pytest.mark.parametrize(
    ("pressure", "load", "is_overloaded"),
    [
        (BUSY, "0.10 8.00 8.00 1/200 4711", True),
        (IDLE, "9.00 8.00 8.00 1/200 4711", False),
        ("", "2.10 0.00 0.00 1/200 4711", True),
        (None, "2.10 0.00 0.00 1/200 4711", True),
        (None, "1.90 8.00 8.00 1/200 4711", False),
        (None, "not a load average", False),
        (None, None, False),
    ],
)
def test_machine_is_overloaded_by_pressure_or_without_it_by_load_average(
    tmp_path: Path, pressure: str | None, load: str | None, *, is_overloaded: bool
) -> None:
    assert bool(find_overload(make_proc(tmp_path, pressure=pressure, load=load), cpus=2)) is is_overloaded


def test_no_build_starts_on_an_overloaded_machine_and_no_failure_is_counted(
    tmp_path: Path, archives: ArchiveDirectory, environ: dict[str, str]
) -> None:
    proc = make_proc(tmp_path, pressure=BUSY)
    with pytest.raises(MachineBusy, match="88 % of the last minute"):
        build_if_missing(archives, environ, configure_logging(component="test"), at_once=False, proc=proc)
    assert archives.recent_failures(JavaRuntime.detect(environ).fingerprint, time.time()) == 0
    assert [file.name for file in archives.directory.iterdir()] == ["lock"]


def test_overload_is_not_reported_if_the_archive_exists(
    tmp_path: Path, archives: ArchiveDirectory, environ: dict[str, str]
) -> None:
    (archives.directory / archives.file_name(JavaRuntime.detect(environ), len("classes"))).write_text("classes")
    proc = make_proc(tmp_path, pressure=BUSY)
    build_if_missing(archives, environ, configure_logging(component="test"), at_once=False, proc=proc)


@pytest.mark.slow
@pytest.mark.parametrize(("pressure", "at_once"), [(IDLE, False), (BUSY, True)])
def test_build_starts_on_an_idle_machine_or_at_once(
    tmp_path: Path, archives: ArchiveDirectory, environ: dict[str, str], pressure: str, *, at_once: bool
) -> None:
    proc = make_proc(tmp_path, pressure=pressure)
    with pytest.raises(Unavailable, match="training run failed") as failure:
        build_if_missing(archives, environ, configure_logging(component="test"), at_once=at_once, proc=proc)
    assert not isinstance(failure.value, MachineBusy)
    assert archives.recent_failures(JavaRuntime.detect(environ).fingerprint, time.time()) == 1


@pytest.mark.slow
def test_keeper_builds_as_soon_as_the_machine_is_no_longer_overloaded(
    tmp_path: Path, archives: ArchiveDirectory, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    proc = make_proc(tmp_path, pressure=BUSY)
    fingerprint = JavaRuntime.detect(os.environ).fingerprint
    lock = archives.directory / "lock"

    async def test() -> None:
        keeper = CdsKeeper(
            archives.directory,
            tmp_path / "attempts",
            configure_logging(component="test"),
            start_delay_s=0,
            retry_s=0.1,
            proc=proc,
        )
        running = asyncio.ensure_future(keeper.run())
        await wait_until_async(lock.exists, 60, "the build process has looked for the archive")
        lock.unlink()
        await wait_until_async(lock.exists, 60, "the build process has ended and the next one has looked again")
        assert archives.recent_failures(fingerprint, time.time()) == 0
        make_proc(tmp_path, pressure=IDLE)
        await wait_until_async(lambda: archives.recent_failures(fingerprint, time.time()) > 0, 60, "a build has begun")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(test())
