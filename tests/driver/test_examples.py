"""The example scripts: supervised, killed and restarted, and under plain spark-submit."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.drivers import DRIVER_TIMEOUT_S, EXAMPLES, SRC, SUBMIT_ARGUMENTS, DriverProcess, list_batches
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.live


def needs_spark(test: Callable[..., None]) -> Callable[..., None]:
    for mark in (pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)):
        test = mark(test)
    return test


def read_counts(output: Path) -> dict[str, int]:
    """Return the counts that the word count has written. Empty while the output is being replaced."""
    try:
        lines = [line for file in output.glob("part-*") for line in file.read_text().splitlines()]
    except FileNotFoundError:
        return {}
    return {row["word"]: row["count"] for row in map(json.loads, lines)}


@needs_spark
def test_word_count_continues_after_a_crash_and_refuses_a_foreign_output(
    attempts: Callable[[], DriverProcess], tmp_path: Path
) -> None:
    texts, output = tmp_path / "texts", tmp_path / "cöunts"
    texts.mkdir()
    (texts / "one.txt").write_text("to be or not to be\n")
    arguments = ["--input", str(texts), "--output", str(output)]

    first = attempts().start(EXAMPLES / "wordcount.py", *arguments)
    wait_until(
        lambda: read_counts(output) == {"to": 2, "be": 2, "or": 1, "not": 1} or not first.alive(),
        DRIVER_TIMEOUT_S,
        "the counts",
    )
    first.kill()

    (texts / "two.txt").write_text("to do\n")
    second = attempts().start(EXAMPLES / "wordcount.py", *arguments)
    total = {"to": 3, "be": 2, "or": 1, "not": 1, "do": 1}
    wait_until(lambda: read_counts(output) == total or not second.alive(), DRIVER_TIMEOUT_S, "the counts of both files")
    second.request_stop()
    assert second.wait() == 0, second.output()[-3000:]
    assert read_counts(output) == total
    assert list_batches(second.checkpoint / "offsets") == list_batches(second.checkpoint / "commits")

    other_job = DriverProcess(tmp_path / "another job")
    try:
        assert other_job.start(EXAMPLES / "wordcount.py", *arguments).wait() == 1
    finally:
        other_job.kill()
    assert other_job.exit_record()["condition"] == "PATH_ALREADY_EXISTS"
    assert other_job.exit_record()["reason"].startswith(f"the output path file:{output} already exists (PATH_ALREADY_EXISTS)")
    assert read_counts(output) == total


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


@needs_spark
def test_each_number_is_written_once_although_the_job_was_killed(attempts: Callable[[], DriverProcess], tmp_path: Path) -> None:
    """A second script that uses `holdfast.job` then reads the numbers under plain spark-submit."""
    numbers = tmp_path / "numbers"
    arguments = ["--output", str(numbers), "--rows-per-second", "50", "--every=100 milliseconds"]
    first = attempts()
    commits = first.checkpoint / "commits"
    first.start(EXAMPLES / "rate_to_parquet.py", *arguments)
    wait_until(
        lambda: (commits.exists() and len(list_batches(commits)) > 3) or not first.alive(), DRIVER_TIMEOUT_S, "some batches"
    )
    first.kill()
    before = list_batches(commits)[-1]

    second = attempts().start(EXAMPLES / "rate_to_parquet.py", *arguments)
    wait_until(lambda: list_batches(commits)[-1] > before + 2 or not second.alive(), DRIVER_TIMEOUT_S, "more batches")
    second.request_stop()
    assert second.wait() == 0, second.output()[-3000:]
    assert second.exit_record()["how"] == "stopped"
    assert list_batches(second.checkpoint / "offsets")[-1] == list_batches(commits)[-1]

    script = tmp_path / "check it.py"
    script.write_text(CHECK)
    submit = Path(sys.executable).parent / "spark-submit"
    options = [word.strip("'") for word in SUBMIT_ARGUMENTS.removesuffix("pyspark-shell").split(" --conf ")[0].split()]
    bare = subprocess.run(
        [str(submit), *options, "--conf", "spark.ui.enabled=false", str(script), "--numbers", str(numbers)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DRIVER_TIMEOUT_S,
    )
    assert bare.returncode == 0, bare.stderr[-3000:]
    printed = {line.split()[0]: line.split()[1:] for line in bare.stdout.splitlines() if line.strip()}
    assert printed["ROWS"][0] == "True" and int(printed["ROWS"][1]) > 0
    assert printed["CONTEXT"] == ["False", "0", "check", "it", "check", "it", "False"]
    default = tmp_path / "checkpoints" / "check it"
    assert bare.stdout.endswith(f"CHECKPOINT {default}\n") and list_batches(default / "commits")
    assert f"using the checkpoint {default}; choose another with --checkpoint" in bare.stdout + bare.stderr


@needs_spark
def test_batch_example_finishes_and_crash_example_names_its_error(
    attempts: Callable[[], DriverProcess], tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("b a b c b a\n")
    batch = attempts().start(EXAMPLES / "batch.py", "--input", str(text), "--output", str(tmp_path / "top"), "--top", "2")
    assert batch.wait() == 0, batch.output()[-3000:]
    assert batch.exit_record()["how"] == "finished"
    assert read_counts(tmp_path / "top") == {"b": 3, "a": 2}

    crash = attempts().start(EXAMPLES / "crash.py", "batches", "--after", "2")
    assert crash.wait() == 1
    assert crash.exit_record()["reason"].startswith(
        "the script failed: RuntimeError: batch 2 fails on purpose (FOREACH_BATCH_USER"
    )
    assert crash.exit_record()["reason"].endswith("of crash.py)")
    progress = crash.progress()
    assert progress is not None and progress["batch_id"] in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        ([], 1, "the script failed: RuntimeError: this script fails on purpose"),
        (["raise"], 1, "the script failed: RuntimeError: this script fails on purpose"),
        (["exit", "--code", "3"], 3, "the script ended with exit code 3"),
        (["memory"], 1, "the script failed: MemoryError"),
        (["nonsense"], 1, "the script ended: unknown failure 'nonsense'"),
        (["kill"], -9, None),
    ],
)
def test_crash_before_spark_starts_is_recorded(
    driver: DriverProcess, arguments: list[str], status: int, reason: str | None
) -> None:
    assert driver.start(EXAMPLES / "crash.py", *arguments).wait() == status
    if reason is None:
        assert not (driver.control / "end.json").exists()
    else:
        assert driver.exit_record()["reason"].startswith(reason)
