"""Class archives: which one fits, what a driver is told about it, and how often one is tried."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import config
from holdfast.errors import Refused
from holdfast.log import configure
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Spec
from holdfast.runner.cds.archive import FAILURES_MAX, FORGIVE_S, NEVER, Archives, Ground
from holdfast.runner.cds.build import make_if_missing, sweep
from holdfast.runner.driver_command import Command, Supplies
from holdfast.runner.lease import Run
from holdfast.storage import open_storage

CRASH = "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGBUS (0x7) at pc=0x0"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A Java and a Spark that look like some."""
    for file in ("java/bin/java", "java/lib/modules", "spark/jars/a.jar", "spark/jars/b.jar"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file)
    return {"JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": str(tmp_path / "spark"), "PATH": ""}


@pytest.fixture
def archives(tmp_path: Path) -> Archives:
    (tmp_path / "the archives").mkdir()
    return Archives(tmp_path / "the archives")


def put(archives: Archives, environ: dict[str, str], content: str = "classes") -> Path:
    file = archives.directory / archives.name(Ground.of(environ), len(content))
    file.write_text(content)
    return file


# Which one fits


def test_an_archive_is_found_as_long_as_java_and_spark_stay_as_they_are(archives: Archives, environ: dict[str, str]) -> None:
    assert archives.find(environ) is None
    file = put(archives, environ)
    assert archives.find(environ) == file


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "spark/jars/a.jar").write_text("another size"),
        lambda root: os.utime(root / "spark/jars/b.jar", (1, 1)),
        lambda root: (root / "spark/jars/c.jar").touch(),
        lambda root: (root / "spark/jars/b.jar").unlink(),
        lambda root: (root / "java/lib/modules").write_text("another Java"),
        lambda root: (root / "spark/jars").rename(root / "spark/was"),
        lambda root: (root / "java").rename(root / "elsewhere"),
    ],
)
def test_an_archive_is_not_found_after_a_change(
    archives: Archives, environ: dict[str, str], tmp_path: Path, change: Callable[[Path], object]
) -> None:
    put(archives, environ)
    change(tmp_path)
    assert archives.find(environ) is None


def test_an_archive_that_was_cut_short_is_not_found(archives: Archives, environ: dict[str, str]) -> None:
    put(archives, environ, "classes").write_text("class")
    assert archives.find(environ) is None


def test_settings_that_come_first_in_the_class_path_leave_no_archive(
    archives: Archives, environ: dict[str, str], tmp_path: Path
) -> None:
    put(archives, environ)
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").touch()
    with pytest.raises(Refused, match="has files in it"):
        Ground.of({**environ, "SPARK_CONF_DIR": str(conf)})
    assert archives.find({**environ, "SPARK_CONF_DIR": str(conf)}) is None


def test_no_directory_is_no_archive(tmp_path: Path, environ: dict[str, str]) -> None:
    assert Archives(tmp_path / "nowhere").find(environ) is None


WATCHED = """
import os, sys
from holdfast.runner.cds.archive import Ground
seen = []
sys.addaudithook(lambda event, told: seen.append((event, *told)) if event in sys.argv[1:] else None)
Ground.of(os.environ)
print(seen, "pyspark" in sys.modules)
"""


def test_the_real_java_and_spark_are_told_apart_by_a_look_at_their_files_alone() -> None:
    """Every driver waits for this: no program is run, no file is opened, and PySpark is not imported."""
    try:
        Ground.of(os.environ)
    except Refused:
        pytest.skip("no Java here")
    command = [sys.executable, "-c", WATCHED, "open", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[] False\n"


# What a driver is told


def options(archives: Archives | None, environ: dict[str, str], tmp_path: Path, *own: tuple[str, str]) -> str:
    (tmp_path / "storage").mkdir()
    spec = Spec("words", "job.py", "0" * 64, conf=own)
    run = Run(JobId("j1"), Attempt(1), NodeId("n1"), "nonce")
    storage, supplies = open_storage(str(tmp_path / "storage")), Supplies(archives=archives)
    some = Command(run, spec, tmp_path / "attempt", storage, supplies=supplies)
    return some.environment(environ)["PYSPARK_SUBMIT_ARGS"]


def test_a_driver_is_told_of_an_archive_that_fits(archives: Archives, environ: dict[str, str], tmp_path: Path) -> None:
    file = put(archives, environ)
    told = options(archives, environ, tmp_path)
    assert f"-XX:SharedArchiveFile={file}" in told and "-Xshare:auto" in told


def test_a_driver_is_told_nothing_if_none_fits(archives: Archives, environ: dict[str, str], tmp_path: Path) -> None:
    assert "-Xshare" not in options(archives, environ, tmp_path)


def test_what_a_job_says_to_java_comes_after_the_archive(archives: Archives, environ: dict[str, str], tmp_path: Path) -> None:
    put(archives, environ)
    told = options(archives, environ, tmp_path, ("spark.driver.extraJavaOptions", "-Xshare:off"))
    assert told.index("-Xshare:auto") < told.index("-Xshare:off")


# What is not worth having


def test_an_archive_that_java_crashed_with_is_not_used_again(archives: Archives, environ: dict[str, str]) -> None:
    file = put(archives, environ)
    assert not archives.distrust(file, "Traceback (most recent call last):")
    assert archives.find(environ) == file
    assert archives.distrust(file, CRASH)
    assert archives.find(environ) is None
    assert archives.failures(Ground.of(environ).key, time.time()) == 1


def test_failures_are_counted_and_forgiven_after_a_day(archives: Archives) -> None:
    for _ in range(FAILURES_MAX):
        archives.failed("key", time.time())
    now = time.time()
    assert archives.failures("key", now) == FAILURES_MAX
    assert archives.failures("other", now) == 0
    assert archives.failures("key", now + FORGIVE_S + 1) == 0


def test_the_failures_of_yesterday_are_not_added_to(archives: Archives) -> None:
    archives.failed("key", time.time())
    file = archives.directory / "key.failures"
    os.utime(file, (time.time() - FORGIVE_S - 1,) * 2)
    archives.failed("key", time.time())
    assert archives.failures("key", time.time()) == 1


def test_a_java_that_fails_is_not_tried_more_than_a_few_times(archives: Archives, environ: dict[str, str]) -> None:
    """The Java here is no program. Each try costs a process of Python, and ends in one sentence."""
    command = [sys.executable, "-m", "holdfast.runner.cds.build", str(archives.directory), "--at-once"]
    said = []
    for _ in range(FAILURES_MAX + 2):
        done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=150)
        said.append((done.returncode, done.stderr.count("no class archive")))
        assert "Traceback" not in done.stderr
    assert said == [(1, 1)] * FAILURES_MAX + [(0, 0)] * 2
    assert not list(archives.directory.glob("making-*")) and not list(archives.directory.glob("*.jsa"))


def test_what_cannot_work_is_said_once_and_for_all(archives: Archives, environ: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.runner.cds.build", str(archives.directory)]
    surroundings = {**os.environ, **environ, "JAVA_HOME": "", "PATH": str(tmp_path)}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("there is no Java")) == (NEVER, 1)


def test_only_one_makes_it_at_a_time(archives: Archives, environ: dict[str, str]) -> None:
    with (archives.directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_if_missing(archives, environ, configure(component="test"), at_once=True)
    assert archives.failures(Ground.of(environ).key, time.time()) == 0


def test_the_newest_two_are_kept_and_nothing_unfinished(archives: Archives) -> None:
    for age, name in enumerate(["new", "newer", "old", "older"]):
        (archives.directory / f"{name}-1.jsa").touch()
        os.utime(archives.directory / f"{name}-1.jsa", (1000 - age, 1000 - age))
    (archives.directory / "making-1" / "out").mkdir(parents=True)
    sweep(archives.directory)
    assert sorted(path.name for path in archives.directory.iterdir()) == ["new-1.jsa", "newer-1.jsa"]


# Where and whether


@pytest.mark.parametrize(
    ("setting", "variable", "expected"),
    [
        ("", "", "NODE/archives"),
        ('archives = "/var/archives"', "", "/var/archives"),
        ('archives = "off"', "", None),
        ("", "off", None),
        ('archives = "off"', "/tmp/archives", "/tmp/archives"),
    ],
)
def test_the_place_is_a_setting_and_a_variable_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, variable: str, expected: str | None
) -> None:
    monkeypatch.setenv("HOLDFAST_ARCHIVES", variable)
    file = tmp_path / "holdfast.toml"
    file.write_text(f'[cluster]\nconnect = "localhost:2181"\n[node]\ndir = "{tmp_path}"\n{setting}\n')
    found = config.load(file).archives
    assert found == (Path(expected.replace("NODE", str(tmp_path))) if expected else None)


def step_back(*, session: bool) -> list[str]:
    program = (
        "import os; from holdfast.runner.cds.low_priority import step_back; step_back();"
        "print(os.getpriority(os.PRIO_PROCESS, 0), open('/proc/self/oom_score_adj').read().strip())"
    )
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=session).stdout.split()


def test_who_steps_back_is_the_last_in_every_queue() -> None:
    assert step_back(session=True) == ["19", "1000"]


def test_who_steps_back_leaves_the_session_of_others_alone() -> None:
    autogroup = Path("/proc/self/autogroup")
    if not autogroup.exists():
        pytest.skip("this kernel does not group by session")
    before = autogroup.read_text()
    assert step_back(session=False) == ["19", "1000"]
    assert autogroup.read_text() == before
