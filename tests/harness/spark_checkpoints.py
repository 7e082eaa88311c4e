"""Checkpoints written by a real Spark, copies in the state after a kill, and resuming from them with Spark."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.checkpoint import CheckpointVerdict, FileSinkLog, KnownQuery, Query, judge_query
from holdfast.storage import Checkpoints, examine_file_sink
from tests.harness.checkpoint_trees import crc_file
from tests.harness.drivers import SUBMIT_ARGUMENTS

SCRIPT = Path(__file__).parent / "checkpoint_scripts" / "streams.py"
SINKS = {"windows": "parquet", "totals": "noop", "rows": "parquet"}
INPUT_FILES = 4
SPARK_TIMEOUT_S = 280


class SparkQueryFolder(NamedTuple):
    """Folder of one query: its checkpoint and its output."""

    kind: str
    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def sink_log(self) -> Path:
        return self.folder / "out" / "_spark_metadata"

    @property
    def known_query(self) -> KnownQuery:
        return KnownQuery(str(self.checkpoint), self.kind, SINKS[self.kind], str(self.folder / "out"))

    def examine(self) -> tuple[Query, FileSinkLog | None]:
        (query,) = Checkpoints(str(self.checkpoint)).examine_queries()
        return query, examine_file_sink(self.known_query.path) if self.known_query.writes_files else None

    def judge(self) -> CheckpointVerdict:
        query, sink = self.examine()
        return judge_query(query, self.known_query, sink)

    def repair(self) -> CheckpointVerdict:
        """Set torn offsets aside, as the runner does."""
        verdict = self.judge()
        if verdict.batch_to_set_aside is not None:
            checkpoints = Checkpoints(str(self.checkpoint))
            checkpoints.set_aside(checkpoints.examine_queries()[0], verdict.batch_to_set_aside, attempt=2)
        return verdict

    def copy(self, to: Path) -> "SparkQueryFolder":
        """Copy the folder and rewrite the sink's log, which contains absolute paths."""
        shutil.copytree(self.folder, to)
        copy = SparkQueryFolder(self.kind, to)
        for file in copy.sink_log.glob("[0-9]*"):
            data = file.read_bytes().replace(f"file://{self.folder}/".encode(), f"file://{to}/".encode())
            file.write_bytes(data)
            (copy.sink_log / f".{file.name}.crc").write_bytes(crc_file(data))
        return copy

    def newest_batch(self, folder: str) -> int:
        return max(int(path.name) for path in (self.checkpoint / folder).iterdir() if path.name.isdigit())

    def drop_newest_commit(self) -> int:
        """Delete the commits of the newest batch, as if the driver was killed in it: planned, state written, not committed."""
        batch = self.newest_batch("offsets")
        for folder in (self.checkpoint / "commits", self.sink_log):
            for name in (str(batch), f".{batch}.crc"):
                (folder / name).unlink(missing_ok=True)
        return batch


def run_spark(root: Path, *arguments: str, lines: Iterable[str] = ()) -> str:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), str(root), *arguments],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=SPARK_TIMEOUT_S,
        check=False,
        cwd=root,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS, "PYSPARK_PYTHON": sys.executable},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def resume_all(root: Path, queries: Iterable[SparkQueryFolder]) -> dict[Path, dict[str, Any]]:
    """Resume all queries in one Spark. Return the result of each by its folder."""
    printed = run_spark(root, "resume", lines=[f"{query.kind} {query.folder}" for query in queries])
    results = [json.loads(line.removeprefix("RESULT ")) for line in printed.splitlines() if line.startswith("RESULT ")]
    return {Path(result["folder"]): result for result in results}
