"""What a script knows about the job that it is, supervised or not."""

import subprocess
import sys

import pytest

from holdfast.driver_protocol.environment import Environment
from holdfast.errors import Refused
from holdfast.job import context

TOLD = {
    "HOLDFAST_JOB": "j-17",
    "HOLDFAST_NAME": "counts",
    "HOLDFAST_ATTEMPT": "3",
    "HOLDFAST_CHECKPOINT": "s3a://bucket/checkpoints/j-17",
}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*TOLD, "HOLDFAST_CONTROL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.argv", ["/somewhere/word count.py"])


def test_supervised_everything_comes_from_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["x.py", "--checkpoint", "/elsewhere"])
    ctx = context()
    assert (ctx.job, ctx.name, ctx.attempt, ctx.supervised) == ("j-17", "counts", 3, True)
    assert ctx.checkpoint == "s3a://bucket/checkpoints/j-17", "an argument does not lead away from what is guarded"


def test_unsupervised_the_script_itself_is_the_job() -> None:
    ctx = context()
    assert (ctx.job, ctx.name, ctx.attempt, ctx.supervised, ctx.stopping) == ("word count", "word count", 0, False, False)


def test_unsupervised_an_argument_names_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["x.py", "--checkpoint", "/my/checkpoint"])
    assert context().checkpoint == "/my/checkpoint"


def test_an_attempt_that_is_no_number_is_refused() -> None:
    with pytest.raises(Refused, match="HOLDFAST_ATTEMPT is 'three', which is not the number of an attempt"):
        Environment.read({"HOLDFAST_ATTEMPT": "three"})


@pytest.mark.parametrize(("argv", "job"), [([""], "script"), (["-c"], "script"), ([], "script"), (["a/b.c.py"], "b.c")])
def test_a_prompt_is_a_script_too(argv: list[str], job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", argv)
    assert context().job == job


OWN = ("holdfast.driver", "holdfast.driver_protocol", "holdfast.job")


def test_importing_it_is_light() -> None:
    """Neither PySpark nor anything of Holdfast but the errors; a script that needs neither pays for neither."""
    seen = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import holdfast.driver.bootstrap, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(seen.stdout.split())
    assert not {name for name in modules if name.split(".")[0] in ("pyspark", "py4j", "kazoo", "asyncio", "structlog")}
    of_holdfast = {name for name in modules if name.startswith("holdfast") and not name.startswith(OWN)}
    assert of_holdfast == {"holdfast", "holdfast.errors"}
