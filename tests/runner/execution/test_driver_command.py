"""Command, environment and code of a driver."""

import shlex
import sys
import zipfile
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Spec
from holdfast.runner.execution.driver_command import DriverCommand
from holdfast.runner.lease import AttemptAssignment
from holdfast.storage import BlobMissing, open_storage

ASSIGNMENT = AttemptAssignment(JobId("j1"), Attempt(3), NodeId("n1"), "nonce")


def command(tmp_path: Path, script: str = "job.py", **spec: object) -> DriverCommand:
    (tmp_path / "storage").mkdir(exist_ok=True)
    storage = open_storage(str(tmp_path / "storage"))
    (tmp_path / "script").write_text("print('hello')\n")
    blob = storage.put(tmp_path / "script")
    return DriverCommand(ASSIGNMENT, Spec("words", script, blob, **spec), tmp_path / "attempt", storage)  # type: ignore[arg-type]  # any fields


def submit_arguments(environment: dict[str, str]) -> list[str]:
    return shlex.split(environment["PYSPARK_SUBMIT_ARGS"])


def test_arguments_are_passed_unchanged(tmp_path: Path) -> None:
    argv = command(tmp_path, arguments=("--input", "a b", "ü 'x'", "--")).arguments
    assert argv[-4:] == ["--input", "a b", "ü 'x'", "--"]
    assert argv[0] == sys.executable


def test_code_is_fetched_into_the_attempt_directory(tmp_path: Path) -> None:
    driver = command(tmp_path)
    driver.fetch_code()
    assert (tmp_path / "attempt" / "code" / "job.py").read_text() == "print('hello')\n"
    assert driver.work_directory.is_dir()


def test_temporary_files_of_spark_and_python_go_to_the_attempt_directory(tmp_path: Path) -> None:
    driver = command(tmp_path, conf=(("spark.driver.extraJavaOptions", "-Djava.io.tmpdir=/elsewhere"),))
    driver.fetch_code()
    environment = driver.build_environment({"TMPDIR": "/tmp", "PATH": "/bin"})
    assert environment["TMPDIR"] == str(tmp_path / "attempt" / "tmp")
    (java,) = [argument for argument in submit_arguments(environment) if argument.startswith("spark.driver.extraJavaOptions=")]
    assert java.index(f"-Djava.io.tmpdir={tmp_path}/attempt/tmp") < java.index("-Djava.io.tmpdir=/elsewhere"), (
        "the job's own option comes last and wins"
    )


def test_application_on_yarn_is_tagged_with_its_job_and_attempt(tmp_path: Path) -> None:
    driver = command(tmp_path, conf=(("spark.master", "yarn"), ("spark.yarn.tags", "mine")))
    arguments = submit_arguments(driver.build_environment({}))
    assert arguments[:2] == ["--master", "yarn"]
    assert "spark.yarn.tags=mine,holdfast-job-j1,holdfast-attempt-3" in arguments


def test_pipeline_is_unpacked_with_its_original_layout(tmp_path: Path) -> None:
    driver = command(tmp_path, script="pipeline.yml")
    with pytest.raises(Refused, match="cannot be unpacked"):
        driver.fetch_code()
    package = tmp_path / "package.zip"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("pipeline.yml", "name: words\n")
        archive.writestr("flows/one.sql", "SELECT 1")
    storage = open_storage(str(tmp_path / "storage"))
    DriverCommand(ASSIGNMENT, Spec("words", "pipeline.yml", storage.put(package)), tmp_path / "attempt", storage).fetch_code()
    assert (tmp_path / "attempt" / "code" / "flows" / "one.sql").read_text() == "SELECT 1"
    assert driver.arguments[-1] == str(tmp_path / "attempt" / "code" / "pipeline.yml")


def test_missing_code_raises_blob_missing(tmp_path: Path) -> None:
    driver = command(tmp_path)
    for blob in (tmp_path / "storage" / "blobs").iterdir():
        blob.unlink()
    with pytest.raises(BlobMissing):
        driver.fetch_code()


def test_settings_with_spaces_and_quotes_are_passed_unchanged(tmp_path: Path) -> None:
    driver = command(tmp_path, conf=(("spark.x", "a 'b' \"c\" d"), ("spark.master", "local[2]")))
    arguments = submit_arguments(driver.build_environment({}))
    assert "spark.x=a 'b' \"c\" d" in arguments
    assert arguments[arguments.index("--master") + 1] == "local[2]"
    assert arguments[-1] == "pyspark-shell"


def test_job_settings_override_defaults_and_java_options_are_appended(tmp_path: Path) -> None:
    conf = (("spark.ui.enabled", "true"), ("spark.driver.extraJavaOptions", "-Dx=1"))
    arguments = submit_arguments(command(tmp_path, conf=conf).build_environment({}))
    assert "spark.ui.enabled=true" in arguments and "spark.ui.enabled=false" not in arguments
    (options,) = (argument for argument in arguments if argument.startswith("spark.driver.extraJavaOptions="))
    assert "-XX:+ExitOnOutOfMemoryError" in options and options.endswith("-Dx=1")


def test_executors_can_use_another_python(tmp_path: Path) -> None:
    assert command(tmp_path).build_environment({})["PYSPARK_PYTHON"] == sys.executable
    environment = command(tmp_path, conf=(("spark.pyspark.python", "./env/bin/python"),)).build_environment({})
    assert (environment["PYSPARK_PYTHON"], environment["PYSPARK_DRIVER_PYTHON"]) == ("./env/bin/python", sys.executable)


def test_holdfast_settings_are_not_passed_to_spark(tmp_path: Path) -> None:
    arguments = submit_arguments(command(tmp_path, conf=(("holdfast.memory", "1g"),)).build_environment({}))
    assert not any("holdfast.memory" in argument for argument in arguments)


def test_holdfast_variables_of_the_node_are_not_passed_to_the_driver(tmp_path: Path) -> None:
    environment = command(tmp_path).build_environment({"HOLDFAST_DIR": "/x", "HOLDFAST_GUARD_FD": "3", "HOME": "/h"})
    assert "HOLDFAST_DIR" not in environment and "HOLDFAST_GUARD_FD" not in environment
    assert (environment["HOME"], environment["HOLDFAST_ATTEMPT"]) == ("/h", "3")
    assert environment["HOLDFAST_CHECKPOINT"].endswith("/checkpoints/j1")


@pytest.mark.parametrize("name", ["../evil.py", "a/b.py", "", ".", ".."])
def test_file_name_that_leads_to_another_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused):
        command(tmp_path, script=name).fetch_code()
