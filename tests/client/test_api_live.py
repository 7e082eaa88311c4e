"""A real job on a real cluster, controlled through `holdfast.client` alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.client
from holdfast.client import Cluster
from holdfast.model.phase import Phase
from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, SPARK_CONF
from tests.harness.cluster.process_observer import kill_leftovers

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = """
from holdfast.job import context

ctx = context()
print("attempt", ctx.attempt, "starts")
lines = ctx.spark.readStream.text(ctx.args.input)
ctx.run(lines.writeStream.format("text").option("path", ctx.args.output).option("checkpointLocation", ctx.checkpoint).start())
"""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Cluster]:
    try:
        with start_cluster(tmp_path / "c", "--nodes", "1") as up, holdfast.client.connect(up.directory) as cluster:
            yield cluster
    finally:
        kill_leftovers(tmp_path)


def test_job_is_submitted_stopped_resumed_and_cancelled_through_the_api(api: Cluster, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    (inputs / "1.txt").write_text("one\n")
    script = tmp_path / "copy_lines.py"
    script.write_text(SCRIPT)
    job = api.submit(
        script,
        arguments=["--input", str(inputs), "--output", str(tmp_path / "out")],
        conf={**SPARK_CONF, "spark.local.dir": str(tmp_path / "spark")},
        request_id="copy-lines-1",
    )
    assert api.wait(job, until="first_batch", timeout_s=FIRST_BATCH_S).attempt == 1
    assert "attempt 1 starts" in list(api.logs(job))

    stopped = api.wait(api.stop(job), timeout_s=120)
    assert (stopped.phase, stopped.lease) == (Phase.PARKED, None)
    savepoint = api.savepoint(job)
    assert [each.id for each in api.savepoints(job)] == [savepoint.id]

    (inputs / "2.txt").write_text("two\n")
    assert api.wait(api.resume(job), timeout_s=FIRST_BATCH_S).attempt == 2
    for line in api.logs(job, follow=True):
        if line == "attempt 2 starts":
            break

    assert api.wait(api.cancel(job), timeout_s=60).phase is Phase.CANCELLED
    api.remove_savepoint(savepoint.id)
    assert api.savepoints() == []
    phases = [event.event.phase for event in api.events(job)]
    assert phases[-1] is Phase.CANCELLED and Phase.PARKED in phases
    assert [each.id for each in api.jobs(ended=True)] == [job.id] and api.jobs() == []
