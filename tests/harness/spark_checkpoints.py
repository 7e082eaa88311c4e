"""Checkpoints that a real Spark has made, copies of them as a kill leaves them, and a real Spark that goes on from those."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.checkpoint import KnownQuery, Query, Sink, Verdict, judge
from holdfast.storage import Checkpoints, sink_at
from tests.harness.checkpoint_trees import checksums
from tests.harness.drivers import CONF

SCRIPT = Path(__file__).parent / "checkpoint_scripts" / "streams.py"
SINKS = {"windows": "parquet", "totals": "noop", "rows": "parquet"}
FILES = 4
SPARK_S = 280


class Place(NamedTuple):
    """One query with its checkpoint and its output."""

    kind: str
    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        return self.folder / "out" / "_spark_metadata"

    @property
    def known(self) -> KnownQuery:
        return KnownQuery(str(self.checkpoint), self.kind, SINKS[self.kind], str(self.folder / "out"))

    def examined(self) -> tuple[Query, Sink | None]:
        (query,) = Checkpoints(str(self.checkpoint)).queries()
        return query, sink_at(self.known.path) if self.known.writes_files else None

    def judged(self) -> Verdict:
        query, sink = self.examined()
        return judge(query, self.known, sink)

    def mended(self) -> Verdict:
        """As the runner would do it."""
        verdict = self.judged()
        if verdict.aside is not None:
            checkpoints = Checkpoints(str(self.checkpoint))
            checkpoints.set_aside(checkpoints.queries()[0], verdict.aside, attempt=2)
        return verdict

    def copied(self, to: Path) -> "Place":
        """The log of its sink names files by where they are, so it is written anew."""
        shutil.copytree(self.folder, to)
        copy = Place(self.kind, to)
        for file in copy.log.glob("[0-9]*"):
            data = file.read_bytes().replace(f"file://{self.folder}/".encode(), f"file://{to}/".encode())
            file.write_bytes(data)
            (copy.log / f".{file.name}.crc").write_bytes(checksums(data))
        return copy

    def newest(self, folder: str) -> int:
        return max(int(path.name) for path in (self.checkpoint / folder).iterdir() if path.name.isdigit())

    def kill_before_its_effect(self) -> int:
        """As if its driver had been killed in its newest batch: planned, its state written, and not committed anywhere."""
        batch = self.newest("offsets")
        for folder in (self.checkpoint / "commits", self.log):
            for name in (str(batch), f".{batch}.crc"):
                (folder / name).unlink(missing_ok=True)
        return batch


def spark(root: Path, *arguments: str, lines: Iterable[str] = ()) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(root), *arguments],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=SPARK_S,
        check=False,
        cwd=root,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": CONF, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def resumed(root: Path, places: Iterable[Place]) -> dict[Path, dict[str, Any]]:
    """What each of them comes to, by its folder; all in one Spark."""
    said = spark(root, "resume", lines=[f"{place.kind} {place.folder}" for place in places])
    results = [json.loads(line.removeprefix("RESULT ")) for line in said.splitlines() if line.startswith("RESULT ")]
    return {Path(result["folder"]): result for result in results}
