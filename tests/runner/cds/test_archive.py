"""Class archives: lookup, Java options, failed builds and settings."""

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
from holdfast.log import configure_logging
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Spec
from holdfast.runner.cds.archive import EXIT_UNSUPPORTED, FAILURE_WINDOW_S, FAILURES_MAX, ArchiveDirectory, JavaRuntime
from holdfast.runner.cds.build import build_if_missing, remove_old_files
from holdfast.runner.execution.driver_command import DriverCommand, NodeResources
from holdfast.runner.lease import AttemptAssignment
from holdfast.storage import open_storage

CRASH = "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGBUS (0x7) at pc=0x0"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Environment with files that look like a Java and a Spark installation."""
    for file in ("java/bin/java", "java/lib/modules", "spark/jars/a.jar", "spark/jars/b.jar"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file)
    return {"JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": str(tmp_path / "spark"), "PATH": ""}


@pytest.fixture
def archives(tmp_path: Path) -> ArchiveDirectory:
    (tmp_path / "the archives").mkdir()
    return ArchiveDirectory(tmp_path / "the archives")


def add_archive(archives: ArchiveDirectory, environ: dict[str, str], content: str = "classes") -> Path:
    file = archives.directory / archives.file_name(JavaRuntime.detect(environ), len(content))
    file.write_text(content)
    return file


# Lookup


def test_archive_is_found_while_java_and_spark_are_unchanged(archives: ArchiveDirectory, environ: dict[str, str]) -> None:
    assert archives.find_usable(environ) is None
    file = add_archive(archives, environ)
    assert archives.find_usable(environ) == file


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
def test_archive_is_not_found_after_a_change_of_java_or_spark(
    archives: ArchiveDirectory, environ: dict[str, str], tmp_path: Path, change: Callable[[Path], object]
) -> None:
    add_archive(archives, environ)
    change(tmp_path)
    assert archives.find_usable(environ) is None


def test_truncated_archive_is_not_found(archives: ArchiveDirectory, environ: dict[str, str]) -> None:
    add_archive(archives, environ, "classes").write_text("class")
    assert archives.find_usable(environ) is None


def test_archive_is_not_used_with_a_spark_configuration_directory(
    archives: ArchiveDirectory, environ: dict[str, str], tmp_path: Path
) -> None:
    add_archive(archives, environ)
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").touch()
    with pytest.raises(Refused, match="contains files"):
        JavaRuntime.detect({**environ, "SPARK_CONF_DIR": str(conf)})
    assert archives.find_usable({**environ, "SPARK_CONF_DIR": str(conf)}) is None


def test_missing_directory_has_no_archive(tmp_path: Path, environ: dict[str, str]) -> None:
    assert ArchiveDirectory(tmp_path / "nowhere").find_usable(environ) is None


AUDITED_DETECTION = """
import os, sys
from holdfast.runner.cds.archive import JavaRuntime
seen = []
sys.addaudithook(lambda event, arguments: seen.append((event, *arguments)) if event in sys.argv[1:] else None)
JavaRuntime.detect(os.environ)
print(seen, "pyspark" in sys.modules)
"""


def test_runtime_is_detected_without_starting_processes_or_opening_files() -> None:
    """Detection delays every driver start, so it must also not import PySpark."""
    try:
        JavaRuntime.detect(os.environ)
    except Refused:
        pytest.skip("Java is not installed")
    command = [sys.executable, "-c", AUDITED_DETECTION, "open", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[] False\n"


# Java options of a driver


def submit_arguments(archives: ArchiveDirectory | None, environ: dict[str, str], tmp_path: Path, *conf: tuple[str, str]) -> str:
    (tmp_path / "storage").mkdir()
    spec = Spec("words", "job.py", "0" * 64, conf=conf)
    assignment = AttemptAssignment(JobId("j1"), Attempt(1), NodeId("n1"), "nonce")
    storage, resources = open_storage(str(tmp_path / "storage")), NodeResources(cds_archives=archives)
    command = DriverCommand(assignment, spec, tmp_path / "attempt", storage, resources=resources)
    return command.build_environment(environ)["PYSPARK_SUBMIT_ARGS"]


def test_driver_uses_a_fitting_archive(archives: ArchiveDirectory, environ: dict[str, str], tmp_path: Path) -> None:
    file = add_archive(archives, environ)
    arguments = submit_arguments(archives, environ, tmp_path)
    assert f"-XX:SharedArchiveFile={file}" in arguments and "-Xshare:auto" in arguments


def test_driver_has_no_archive_option_if_none_fits(archives: ArchiveDirectory, environ: dict[str, str], tmp_path: Path) -> None:
    assert "-Xshare" not in submit_arguments(archives, environ, tmp_path)


def test_java_options_of_the_job_come_after_the_archive_options(
    archives: ArchiveDirectory, environ: dict[str, str], tmp_path: Path
) -> None:
    add_archive(archives, environ)
    arguments = submit_arguments(archives, environ, tmp_path, ("spark.driver.extraJavaOptions", "-Xshare:off"))
    assert arguments.index("-Xshare:auto") < arguments.index("-Xshare:off")


# Failed builds


def test_archive_is_discarded_after_a_crash_of_java(archives: ArchiveDirectory, environ: dict[str, str]) -> None:
    file = add_archive(archives, environ)
    assert not archives.discard_after_crash(file, "Traceback (most recent call last):")
    assert archives.find_usable(environ) == file
    assert archives.discard_after_crash(file, CRASH)
    assert archives.find_usable(environ) is None
    assert archives.recent_failures(JavaRuntime.detect(environ).fingerprint, time.time()) == 1


def test_failures_are_counted_for_one_day(archives: ArchiveDirectory) -> None:
    for _ in range(FAILURES_MAX):
        archives.record_failure("key", time.time())
    now = time.time()
    assert archives.recent_failures("key", now) == FAILURES_MAX
    assert archives.recent_failures("other", now) == 0
    assert archives.recent_failures("key", now + FAILURE_WINDOW_S + 1) == 0


def test_failure_after_more_than_a_day_starts_a_new_count(archives: ArchiveDirectory) -> None:
    archives.record_failure("key", time.time())
    file = archives.directory / "key.failures"
    os.utime(file, (time.time() - FAILURE_WINDOW_S - 1,) * 2)
    archives.record_failure("key", time.time())
    assert archives.recent_failures("key", time.time()) == 1


@pytest.mark.slow
def test_build_is_not_retried_after_several_failures(archives: ArchiveDirectory, environ: dict[str, str]) -> None:
    """The Java of this test is not executable, so every build fails with one log line."""
    command = [sys.executable, "-m", "holdfast.runner.cds.build", str(archives.directory), "--at-once"]
    results = []
    for _ in range(FAILURES_MAX + 2):
        done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=150)
        results.append((done.returncode, done.stderr.count("no class archive")))
        assert "Traceback" not in done.stderr
    assert results == [(1, 1)] * FAILURES_MAX + [(0, 0)] * 2
    assert not list(archives.directory.glob("making-*")) and not list(archives.directory.glob("*.jsa"))


@pytest.mark.slow
def test_build_without_java_exits_as_unsupported(archives: ArchiveDirectory, environ: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.runner.cds.build", str(archives.directory)]
    variables = {**os.environ, **environ, "JAVA_HOME": "", "PATH": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("Java was not found")) == (EXIT_UNSUPPORTED, 1)


def test_build_is_skipped_while_another_process_holds_the_lock(archives: ArchiveDirectory, environ: dict[str, str]) -> None:
    with (archives.directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_if_missing(archives, environ, configure_logging(component="test"), at_once=True)
    assert archives.recent_failures(JavaRuntime.detect(environ).fingerprint, time.time()) == 0


def test_two_newest_archives_are_kept_and_unfinished_builds_removed(archives: ArchiveDirectory) -> None:
    for age, name in enumerate(["new", "newer", "old", "older"]):
        (archives.directory / f"{name}-1.jsa").touch()
        os.utime(archives.directory / f"{name}-1.jsa", (1000 - age, 1000 - age))
    (archives.directory / "making-1" / "out").mkdir(parents=True)
    remove_old_files(archives.directory)
    assert sorted(path.name for path in archives.directory.iterdir()) == ["new-1.jsa", "newer-1.jsa"]


# Settings and priority


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
def test_environment_variable_overrides_the_archive_directory_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, variable: str, expected: str | None
) -> None:
    monkeypatch.setenv("HOLDFAST_ARCHIVES", variable)
    file = tmp_path / "holdfast.toml"
    file.write_text(f'[cluster]\nconnect = "localhost:2181"\n[node]\ndir = "{tmp_path}"\n{setting}\n')
    directory = config.load_config(file).archives
    assert directory == (Path(expected.replace("NODE", str(tmp_path))) if expected else None)


def run_with_low_priority(*, session: bool) -> list[str]:
    program = (
        "import os; from holdfast.runner.cds.low_priority import lower_priority; lower_priority();"
        "print(os.getpriority(os.PRIO_PROCESS, 0), open('/proc/self/oom_score_adj').read().strip())"
    )
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=session).stdout.split()


def test_low_priority_process_has_the_highest_niceness_and_oom_score() -> None:
    assert run_with_low_priority(session=True) == ["19", "1000"]


def test_low_priority_process_does_not_change_the_session_of_its_parent() -> None:
    autogroup = Path("/proc/self/autogroup")
    if not autogroup.exists():
        pytest.skip("the kernel has no autogroups")
    before = autogroup.read_text()
    assert run_with_low_priority(session=False) == ["19", "1000"]
    assert autogroup.read_text() == before
