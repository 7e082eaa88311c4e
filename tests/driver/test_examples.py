"""The examples, as people run them: supervised, killed and started again, and by a bare spark-submit."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.drivers import CONF, EXAMPLES, SRC, WITHIN_S, Driver, batches
from tests.harness.waiting import eventually

pytestmark = pytest.mark.live


def with_spark(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.real(pytest.mark.slow(pytest.mark.timeout(900)(test)))


def counts(output: Path) -> dict[str, int]:
    """What the word count has written; empty while it is being replaced."""
    try:
        lines = [line for file in output.glob("part-*") for line in file.read_text().splitlines()]
    except FileNotFoundError:
        return {}
    return {row["word"]: row["count"] for row in map(json.loads, lines)}


@with_spark
def test_a_word_count_goes_on_after_a_crash_and_touches_nobody_elses_output(
    attempts: Callable[[], Driver], tmp_path: Path
) -> None:
    texts, output = tmp_path / "texts", tmp_path / "cöunts"
    texts.mkdir()
    (texts / "one.txt").write_text("to be or not to be\n")
    arguments = ["--input", str(texts), "--output", str(output)]

    first = attempts().start(EXAMPLES / "wordcount.py", *arguments)
    eventually(lambda: counts(output) == {"to": 2, "be": 2, "or": 1, "not": 1} or not first.alive(), WITHIN_S, "the counts")
    first.kill()

    (texts / "two.txt").write_text("to do\n")
    second = attempts().start(EXAMPLES / "wordcount.py", *arguments)
    total = {"to": 3, "be": 2, "or": 1, "not": 1, "do": 1}
    eventually(lambda: counts(output) == total or not second.alive(), WITHIN_S, "the counts of both files")
    second.ask_to_stop()
    assert second.wait() == 0, second.output()[-3000:]
    assert counts(output) == total
    assert batches(second.checkpoint / "offsets") == batches(second.checkpoint / "commits")

    stranger = Driver(tmp_path / "another job")
    try:
        assert stranger.start(EXAMPLES / "wordcount.py", *arguments).wait() == 1
    finally:
        stranger.kill()
    assert stranger.end()["condition"] == "PATH_ALREADY_EXISTS"
    assert stranger.end()["reason"].startswith(f"its output path file:{output} exists already (PATH_ALREADY_EXISTS)")
    assert counts(output) == total


CHECK = """
from holdfast.job import context

ctx = context()
rows = ctx.spark.read.parquet(ctx.args.numbers)
print("ROWS", sorted(row.value for row in rows.collect()) == list(range(rows.count())), rows.count())
print("CONTEXT", ctx.supervised, ctx.attempt, ctx.job, ctx.spark.sparkContext.appName, ctx.stopping)
stream = ctx.spark.readStream.schema(rows.schema).parquet(ctx.args.numbers).writeStream.format("noop")
ctx.run(stream.option("checkpointLocation", ctx.checkpoint).trigger(availableNow=True).start())
print("CHECKPOINT", ctx.checkpoint)
"""


@with_spark
def test_every_number_is_written_once_though_the_job_was_killed(attempts: Callable[[], Driver], tmp_path: Path) -> None:
    """And a script that uses `holdfast.job` runs under a bare spark-submit, where it reads them."""
    numbers = tmp_path / "numbers"
    arguments = ["--output", str(numbers), "--rows-per-second", "50", "--every=100 milliseconds"]
    first = attempts()
    commits = first.checkpoint / "commits"
    first.start(EXAMPLES / "rate_to_parquet.py", *arguments)
    eventually(lambda: (commits.exists() and len(batches(commits)) > 3) or not first.alive(), WITHIN_S, "some batches")
    first.kill()
    before = batches(commits)[-1]

    second = attempts().start(EXAMPLES / "rate_to_parquet.py", *arguments)
    eventually(lambda: batches(commits)[-1] > before + 2 or not second.alive(), WITHIN_S, "more batches")
    second.ask_to_stop()
    assert second.wait() == 0, second.output()[-3000:]
    assert second.end()["how"] == "stopped"
    assert batches(second.checkpoint / "offsets")[-1] == batches(commits)[-1]

    script = tmp_path / "check it.py"
    script.write_text(CHECK)
    submit = Path(sys.executable).parent / "spark-submit"
    options = [word.strip("'") for word in CONF.removesuffix("pyspark-shell").split(" --conf ")[0].split()]
    bare = subprocess.run(
        [str(submit), *options, "--conf", "spark.ui.enabled=false", str(script), "--numbers", str(numbers)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert bare.returncode == 0, bare.stderr[-3000:]
    said = {line.split()[0]: line.split()[1:] for line in bare.stdout.splitlines() if line.strip()}
    assert said["ROWS"][0] == "True" and int(said["ROWS"][1]) > 0
    assert said["CONTEXT"] == ["False", "0", "check", "it", "check", "it", "False"]
    default = tmp_path / "checkpoints" / "check it"
    assert bare.stdout.endswith(f"CHECKPOINT {default}\n") and batches(default / "commits")
    assert f"no checkpoint was named, so this is {default}; --checkpoint" in bare.stdout + bare.stderr


@with_spark
def test_a_batch_ends_and_a_crash_is_told(attempts: Callable[[], Driver], tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("b a b c b a\n")
    batch = attempts().start(EXAMPLES / "batch.py", "--input", str(text), "--output", str(tmp_path / "top"), "--top", "2")
    assert batch.wait() == 0, batch.output()[-3000:]
    assert batch.end()["how"] == "finished"
    assert counts(tmp_path / "top") == {"b": 3, "a": 2}

    crash = attempts().start(EXAMPLES / "crash.py", "batches", "--after", "2")
    assert crash.wait() == 1
    assert crash.end()["reason"].startswith("its script failed: RuntimeError: batch 2 fails on purpose (FOREACH_BATCH_USER")
    assert crash.end()["reason"].endswith("of crash.py)")
    progress = crash.progress()
    assert progress is not None and progress["batch_id"] in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        ([], 1, "its script failed: RuntimeError: this script fails on purpose"),
        (["raise"], 1, "its script failed: RuntimeError: this script fails on purpose"),
        (["exit", "--code", "3"], 3, "its script ended with exit code 3"),
        (["memory"], 1, "its script failed: MemoryError"),
        (["nonsense"], 1, "its script ended: 'nonsense' is no way to fail"),
        (["kill"], -9, None),
    ],
)
def test_a_crash_before_spark_is_told(driver: Driver, arguments: list[str], status: int, reason: str | None) -> None:
    assert driver.start(EXAMPLES / "crash.py", *arguments).wait() == status
    if reason is None:
        assert not (driver.control / "end.json").exists()
    else:
        assert driver.end()["reason"].startswith(reason)
