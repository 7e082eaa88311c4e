"""Warnings about a script that is submitted: which lines get one, and which must not."""

import zipfile
from pathlib import Path

import pytest

from holdfast.client.callbacks import Callbacks
from holdfast.client.deployment.job_request import check_request
from holdfast.client.deployment.script_warnings import find_script_warnings, report_script_warnings

SOCKET_CLASS = "org.apache.spark.sql.execution.streaming.sources.TextSocketSourceProvider"


def warnings_of(script: str, conf: dict[str, str] | None = None) -> list[str]:
    return find_script_warnings(script.encode(), "words.py", conf or {})


@pytest.mark.parametrize(
    "expression",
    [
        'spark.readStream.format("socket").option("port", 9).load()',
        'spark.readStream.format(source="Socket").load()',
        'SparkSession.builder.getOrCreate().readStream.option("port", 9).format("socket")',
        'spark.readStream.load(format="socket", host="h")',
        'spark.readStream.load(None, "socket")',
        f'spark.readStream.format("{SOCKET_CLASS}").load()',
        'count(spark.readStream.format("socket").load()).writeStream.format("console").start()',
    ],
)
def test_socket_source_gets_one_warning(expression: str) -> None:
    (warning,) = warnings_of(f"import os\n\nlines = {expression}\n")
    assert warning.startswith("words.py, line 3: the source '")
    for part in ("cannot be resumed", "are lost", "a temporary checkpoint", "use a source that Spark can read again"):
        assert part in warning


def test_warning_names_the_line_of_the_call() -> None:
    script = '(\n    spark.readStream\n    .option("port", 9)\n    .format("socket")\n    .load()\n)\n'
    assert [warning.split(":")[0] for warning in warnings_of(script * 2)] == ["words.py, line 4", "words.py, line 10"]


@pytest.mark.parametrize(
    "expression",
    [
        '"a {}".format("socket")',
        'template.format("socket")',
        'spark.read.format("socket").load()',
        'frame.writeStream.format("socket").start()',
        'spark.readStream.format("rate").load()',
        'spark.readStream.format("rate-micro-batch").load()',
        'spark.readStream.format("kafka").load().writeStream.format("socket").start()',
        "spark.readStream.format(source).load()",
        'spark.readStream.format("socket").format("kafka").load()',
        'spark.readStream.format("socket").load(format=source)',
        'spark.readStream.load("socket")',
        'spark.readStream.load(*arguments, "socket")',
        'spark.readStream.table("socket")',
        'spark.readStream.text("socket").format("socket")',
        "# spark.readStream.format('socket')",
    ],
)
def test_expression_without_a_socket_source_gets_no_warning(expression: str) -> None:
    assert warnings_of(f"{expression}\n") == []


@pytest.mark.parametrize("source", [b"x = (", b"\xff\xfe\x00", b"\0", b"(" * 100_000, b"# coding: nonsense\nx = 1\n", b""])
def test_script_that_is_not_python_gets_no_warning(source: bytes) -> None:
    assert find_script_warnings(source, "words.py", {}) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ('.option("failOnDataLoss", "false")', "failOnDataLoss=false"),
        ('.option("failondataloss", False)', "failOnDataLoss=false"),
        (".options(failOnDataLoss=False)", "failOnDataLoss=false"),
        ('.option(key="failOnDataLoss", value="false")', "failOnDataLoss=false"),
        ('.options(**shared).option("failOnDataLoss", "false")', "failOnDataLoss=false"),
        ('.option("kafka.auto.offset.reset", "latest")', "kafka.auto.offset.reset"),
    ],
)
def test_kafka_option_that_the_offset_check_refuses_gets_a_warning(options: str, problem: str) -> None:
    (warning,) = warnings_of(f'rows = spark.readStream.format("kafka"){options}.load()\n')
    assert warning.startswith(f"words.py, line 1: Holdfast will not start a query with this Kafka source: {problem}")
    assert "--conf holdfast.guards.off=kafka-offsets" in warning


@pytest.mark.parametrize(
    "chain",
    [
        'spark.readStream.format("kafka").option("failOnDataLoss", "true").load()',
        'spark.readStream.format("kafka").option("failOnDataLoss", strict).load()',
        'spark.readStream.format("kafka").option("failOnDataLoss", "false").option("failOnDataLoss", strict).load()',
        'spark.readStream.format("kafka").option("failOnDataLoss", "false").options(**shared).load()',
        'spark.readStream.format("delta").option("failOnDataLoss", "false").load()',
        'spark.readStream.format(source).option("failOnDataLoss", "false").load()',
        'spark.read.format("kafka").option("failOnDataLoss", "false").load()',
        'spark.readStream.format("kafka").load().writeStream.option("failOnDataLoss", "false").start()',
    ],
)
def test_kafka_options_that_are_not_surely_refused_get_no_warning(chain: str) -> None:
    assert warnings_of(chain) == []


def test_integer_that_python_does_not_convert_to_text_does_not_prevent_the_submission() -> None:
    assert warnings_of(f'spark.readStream.format("kafka").option("minPartitions", 0x{"f" * 5000}).load()') == []


def test_disabled_offset_check_allows_every_kafka_option() -> None:
    script = 'spark.readStream.format("kafka").option("failOnDataLoss", "false").load()'
    assert warnings_of(script, {"holdfast.guards.off": "kafka-offsets"}) == []


def test_script_that_has_vanished_sends_no_note(tmp_path: Path) -> None:
    script = tmp_path / "words.py"
    script.write_text('spark.readStream.format("socket").load()\n')
    request = check_request(script, name=None, restart_strategy=None, slots=1, arguments=(), conf={}, py_files=())
    notes: list[str] = []
    report_script_warnings(request, {}, Callbacks(note=notes.append))
    assert [note.split(":")[0] for note in notes] == ["words.py, line 1"]
    script.unlink()
    report_script_warnings(request, {}, Callbacks(note=notes.append))
    assert len(notes) == 1


IMPORTS = (
    "import json, helper.part as part\n\n\ndef late():\n    from pack import a\n    import absent\n    from . import relative\n"
)


def notes_of(script: Path, *py_files: Path, keeps_files: bool = False) -> list[str]:
    request = check_request(script, name=None, restart_strategy=None, slots=1, arguments=(), conf={}, py_files=py_files)
    notes: list[str] = []
    report_script_warnings(request, {}, Callbacks(note=notes.append), keeps_files=keeps_files)
    return notes


def test_module_beside_the_script_that_is_not_stored_with_the_job_gets_a_warning(tmp_path: Path) -> None:
    """The import works where the script was written, and fails on the node."""
    script = tmp_path / "words.py"
    script.write_text(IMPORTS)
    for name in ("helper.py", "json.py", "relative.py", "pack/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert notes_of(script) == [
        f"words.py, line 1: {tmp_path}/helper.py is imported and not stored with the job: add --py-files {tmp_path}/helper.py",
        f"words.py, line 5: the package {tmp_path}/pack is imported and not stored with the job: "
        "pack it into a .zip, and add it with --py-files",
    ]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "pack/__init__.py", "pack/__init__.py")
    assert notes_of(script, tmp_path / "helper.py", tmp_path / "all.zip") == []
    assert notes_of(script, keeps_files=True) == []


def test_script_that_extends_the_search_path_gets_no_warning(tmp_path: Path) -> None:
    script = tmp_path / "words.py"
    (tmp_path / "helper.py").touch()
    script.write_text("import sys\nsys.path.append('/opt/lib')\nimport helper\n")
    assert notes_of(script) == []
