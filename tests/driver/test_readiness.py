"""Announcement that a job has started."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.readiness import PLAIN_SCRIPT_S, UNUSED_SPARK_S, Readiness
from holdfast.driver_protocol.control_files import READY_FILE, read_control_file
from holdfast.runner.execution.control_reader import ControlReader
from tests.harness.drivers import DRIVER_TIMEOUT_S, DriverProcess
from tests.harness.waiting import wait_until


class ReadinessScene:
    """Driver whose script has begun, on a clock of the test."""

    def __init__(self, directory: Path, source: str) -> None:
        self.now_s = 0.0
        self.directory = directory
        self.queries = ActiveQueries()
        self._readiness = Readiness(str(directory), self.queries, clock=lambda: self.now_s)
        script = directory / "job.py"
        script.write_text(source)
        self._readiness.report()
        assert not ControlReader(directory).is_ready(), "the script has not begun"
        self._readiness.begin_script(str(script))

    def reason(self) -> str:
        self._readiness.report()
        content = read_control_file(self.directory, READY_FILE)
        assert ControlReader(self.directory).is_ready() == (content is not None)
        return str(content["reason"]) if content is not None else ""


@pytest.fixture
def without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)


def fake_context(monkeypatch: pytest.MonkeyPatch, context: object) -> None:
    """Install a PySpark whose SparkContext is in this state."""
    module = ModuleType("pyspark")
    module.SparkContext = SimpleNamespace(_active_spark_context=context)  # type: ignore[attr-defined]  # fake module
    monkeypatch.setitem(sys.modules, "pyspark", module)


@pytest.mark.usefixtures("without_pyspark")
@pytest.mark.parametrize(
    ("source", "limit_s"),
    [("import time", PLAIN_SCRIPT_S), ("import pyspark", UNUSED_SPARK_S), ("from holdfast.job import context", UNUSED_SPARK_S)],
)
def test_script_without_spark_does_not_start_for_ever(tmp_path: Path, source: str, limit_s: float) -> None:
    scene = ReadinessScene(tmp_path, source)
    scene.now_s = limit_s - 0.1
    assert scene.reason() == ""
    scene.now_s = limit_s
    assert scene.reason() == f"the script has run for {limit_s:g} s without Spark"


@pytest.mark.usefixtures("without_pyspark")
def test_script_whose_modules_import_pyspark_gets_the_long_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = ReadinessScene(tmp_path, "import my_job")
    fake_context(monkeypatch, None)
    scene.now_s = PLAIN_SCRIPT_S
    assert scene.reason() == ""


@pytest.mark.usefixtures("without_pyspark")
def test_spark_that_waits_for_its_master_has_no_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = ReadinessScene(tmp_path, "import pyspark")
    context = SimpleNamespace(_jsc=None)
    fake_context(monkeypatch, context)
    scene.now_s = 100 * UNUSED_SPARK_S
    assert scene.reason() == ""
    context._jsc = object()
    assert scene.reason() == "Spark has started"


@pytest.mark.usefixtures("without_pyspark")
def test_connect_session_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = ReadinessScene(tmp_path, "import pyspark")
    module = ModuleType("pyspark.sql.connect.session")
    module.SparkSession = SimpleNamespace(_default_session=object())  # type: ignore[attr-defined]  # fake module
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert scene.reason() == "the script is connected to Spark"


@pytest.mark.usefixtures("without_pyspark")
def test_first_query_counts(tmp_path: Path) -> None:
    scene = ReadinessScene(tmp_path, "import pyspark")
    scene.queries.add(SimpleNamespace(isActive=True, name="words", id="q1"))
    assert scene.reason() == "a query has started"


@pytest.mark.usefixtures("without_pyspark")
def test_announcement_is_written_again_after_a_failed_write(tmp_path: Path) -> None:
    (tmp_path / f"{READY_FILE}.new").mkdir()  # a directory in the way
    scene = ReadinessScene(tmp_path, "import time")
    scene.now_s = PLAIN_SCRIPT_S
    assert scene.reason() == ""
    (tmp_path / f"{READY_FILE}.new").rmdir()
    assert scene.reason() != ""


@pytest.mark.live
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("builder", ["builder", 'builder.remote("local[1]")'], ids=["classic", "connect"])
def test_real_session_is_announced_once_it_exists_and_not_before(driver: DriverProcess, builder: str) -> None:
    permission = driver.home / "permission"
    script = driver.write_script(
        "import os, time\n"
        "from pyspark.sql import SparkSession\n"
        f"while not os.path.exists({str(permission)!r}):\n    time.sleep(0.05)\n"
        f"spark = SparkSession.{builder}.getOrCreate()\n"
        "print('session')\n"
        f"while os.path.exists({str(permission)!r}):\n    time.sleep(0.05)\n"
    )
    driver.start(script)
    monitored_s = 2 * PLAIN_SCRIPT_S
    with pytest.raises(AssertionError):
        wait_until((driver.control / READY_FILE).exists, monitored_s, "an announcement without Spark")
    permission.touch()
    content = wait_until(lambda: read_control_file(driver.control, READY_FILE), DRIVER_TIMEOUT_S, "the announcement")
    wait_until(lambda: "session" in driver.output(), DRIVER_TIMEOUT_S, "the session")
    assert content["reason"] in ("Spark has started", "the script is connected to Spark")
    permission.unlink()
    assert driver.wait() == 0
