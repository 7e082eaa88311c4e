"""How a driver is started."""

import shlex
import sys
import zipfile
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Spec
from holdfast.runner.driver_command import Command
from holdfast.runner.lease import Run
from holdfast.storage import BlobMissing, open_storage

RUN = Run(JobId("j1"), Attempt(3), NodeId("n1"), "nonce")


def command(tmp_path: Path, script: str = "job.py", **spec: object) -> Command:
    (tmp_path / "storage").mkdir(exist_ok=True)
    storage = open_storage(str(tmp_path / "storage"))
    (tmp_path / "script").write_text("print('hello')\n")
    blob = storage.put(tmp_path / "script")
    return Command(RUN, Spec("words", script, blob, **spec), tmp_path / "attempt", storage)  # type: ignore[arg-type]


def submit_arguments(environment: dict[str, str]) -> list[str]:
    return shlex.split(environment["PYSPARK_SUBMIT_ARGS"])


def test_arguments_arrive_as_they_were_given(tmp_path: Path) -> None:
    line = command(tmp_path, arguments=("--input", "a b", "ü 'x'", "--")).line
    assert line[-4:] == ["--input", "a b", "ü 'x'", "--"]
    assert line[0] == sys.executable


def test_code_is_fetched_into_the_attempts_own_folder(tmp_path: Path) -> None:
    some = command(tmp_path)
    some.fetch()
    assert (tmp_path / "attempt" / "code" / "job.py").read_text() == "print('hello')\n"
    assert some.work.is_dir()


def test_what_spark_and_python_keep_for_a_while_is_kept_in_the_attempts_own_folder(tmp_path: Path) -> None:
    some = command(tmp_path, conf=(("spark.driver.extraJavaOptions", "-Djava.io.tmpdir=/elsewhere"),))
    some.fetch()
    environment = some.environment({"TMPDIR": "/tmp", "PATH": "/bin"})
    assert environment["TMPDIR"] == str(tmp_path / "attempt" / "tmp")
    (java,) = [each for each in submit_arguments(environment) if each.startswith("spark.driver.extraJavaOptions=")]
    assert java.index(f"-Djava.io.tmpdir={tmp_path}/attempt/tmp") < java.index("-Djava.io.tmpdir=/elsewhere"), (
        "a job may differ"
    )


def test_a_pipeline_is_laid_out_as_it_was(tmp_path: Path) -> None:
    some = command(tmp_path, script="pipeline.yml")
    with pytest.raises(Refused, match="cannot be unpacked"):
        some.fetch()
    package = tmp_path / "package.zip"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("pipeline.yml", "name: words\n")
        archive.writestr("flows/one.sql", "SELECT 1")
    storage = open_storage(str(tmp_path / "storage"))
    Command(RUN, Spec("words", "pipeline.yml", storage.put(package)), tmp_path / "attempt", storage).fetch()
    assert (tmp_path / "attempt" / "code" / "flows" / "one.sql").read_text() == "SELECT 1"
    assert some.line[-1] == str(tmp_path / "attempt" / "code" / "pipeline.yml")


def test_code_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    some = command(tmp_path)
    for blob in (tmp_path / "storage" / "blobs").iterdir():
        blob.unlink()
    with pytest.raises(BlobMissing):
        some.fetch()


def test_settings_with_spaces_and_quotes_arrive_whole(tmp_path: Path) -> None:
    some = command(tmp_path, conf=(("spark.x", "a 'b' \"c\" d"), ("spark.master", "local[2]")))
    arguments = submit_arguments(some.environment({}))
    assert "spark.x=a 'b' \"c\" d" in arguments
    assert arguments[arguments.index("--master") + 1] == "local[2]"
    assert arguments[-1] == "pyspark-shell"


def test_a_jobs_own_settings_win_and_java_options_are_added_to(tmp_path: Path) -> None:
    conf = (("spark.ui.enabled", "true"), ("spark.driver.extraJavaOptions", "-Dx=1"))
    arguments = submit_arguments(command(tmp_path, conf=conf).environment({}))
    assert "spark.ui.enabled=true" in arguments and "spark.ui.enabled=false" not in arguments
    (options,) = (argument for argument in arguments if argument.startswith("spark.driver.extraJavaOptions="))
    assert "-XX:+ExitOnOutOfMemoryError" in options and options.endswith("-Dx=1")


def test_executors_may_have_a_python_of_their_own(tmp_path: Path) -> None:
    assert command(tmp_path).environment({})["PYSPARK_PYTHON"] == sys.executable
    environment = command(tmp_path, conf=(("spark.pyspark.python", "./env/bin/python"),)).environment({})
    assert (environment["PYSPARK_PYTHON"], environment["PYSPARK_DRIVER_PYTHON"]) == ("./env/bin/python", sys.executable)


def test_what_is_meant_for_holdfast_does_not_reach_spark(tmp_path: Path) -> None:
    arguments = submit_arguments(command(tmp_path, conf=(("holdfast.memory", "1g"),)).environment({}))
    assert not any("holdfast.memory" in argument for argument in arguments)


def test_the_nodes_own_variables_do_not_reach_the_driver(tmp_path: Path) -> None:
    environment = command(tmp_path).environment({"HOLDFAST_DIR": "/x", "HOLDFAST_GUARD_FD": "3", "HOME": "/h"})
    assert "HOLDFAST_DIR" not in environment and "HOLDFAST_GUARD_FD" not in environment
    assert (environment["HOME"], environment["HOLDFAST_ATTEMPT"]) == ("/h", "3")
    assert environment["HOLDFAST_CHECKPOINT"].endswith("/checkpoints/j1")


@pytest.mark.parametrize("name", ["../evil.py", "a/b.py", "", ".", ".."])
def test_a_name_that_would_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused):
        command(tmp_path, script=name).fetch()
