"""Context of a script, supervised and unsupervised."""

import subprocess
import sys

import pytest

from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.errors import Refused
from holdfast.job import context

SUPERVISED_VARIABLES = {
    "HOLDFAST_JOB": "j-17",
    "HOLDFAST_NAME": "counts",
    "HOLDFAST_ATTEMPT": "3",
    "HOLDFAST_CHECKPOINT": "s3a://bucket/checkpoints/j-17",
}


@pytest.fixture(autouse=True)
def unsupervised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables of a runner, and set the name of the script."""
    for name in (*SUPERVISED_VARIABLES, "HOLDFAST_CONTROL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.argv", ["/somewhere/word count.py"])


def test_supervised_context_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SUPERVISED_VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["x.py", "--checkpoint", "/elsewhere"])
    ctx = context()
    assert (ctx.job, ctx.name, ctx.attempt, ctx.supervised) == ("j-17", "counts", 3, True)
    assert ctx.checkpoint == "s3a://bucket/checkpoints/j-17", "an argument does not override the supervised checkpoint"


def test_unsupervised_context_is_named_after_the_script() -> None:
    ctx = context()
    assert (ctx.job, ctx.name, ctx.attempt, ctx.supervised, ctx.stopping) == ("word count", "word count", 0, False, False)


def test_unsupervised_checkpoint_comes_from_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["x.py", "--checkpoint", "/my/checkpoint"])
    assert context().checkpoint == "/my/checkpoint"


def test_invalid_attempt_number_is_refused() -> None:
    with pytest.raises(Refused, match="HOLDFAST_ATTEMPT is 'three', which is not an attempt number"):
        DriverEnvironment.from_variables({"HOLDFAST_ATTEMPT": "three"})


@pytest.mark.parametrize(("argv", "job"), [([""], "script"), (["-c"], "script"), ([], "script"), (["a/b.c.py"], "b.c")])
def test_job_name_without_a_script_file(argv: list[str], job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", argv)
    assert context().job == job


ALLOWED_PACKAGES = ("holdfast.driver", "holdfast.driver_protocol", "holdfast.job")


def test_import_loads_neither_pyspark_nor_the_control_plane() -> None:
    """The bootstrap imports only the errors of Holdfast, so a script pays for PySpark only if it uses it."""
    seen = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import holdfast.driver.bootstrap, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(seen.stdout.split())
    assert not {name for name in modules if name.split(".")[0] in ("pyspark", "py4j", "kazoo", "asyncio", "structlog")}
    of_holdfast = {name for name in modules if name.startswith("holdfast") and not name.startswith(ALLOWED_PACKAGES)}
    assert of_holdfast == {"holdfast", "holdfast.errors"}
