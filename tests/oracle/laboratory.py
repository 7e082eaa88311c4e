"""Runs cells: prepares a checkpoint once per query and store, and gives each cell a copy."""

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession

from tests.harness.waiting import wait_until
from tests.oracle.cells import STATELESS, Cell
from tests.oracle.damage import apply_damage
from tests.oracle.death import DEATHS
from tests.oracle.judge import judge
from tests.oracle.kafka_topics import open_topic
from tests.oracle.operations import OPERATIONS, OperationFailed
from tests.oracle.oracle import ask
from tests.oracle.program import Program
from tests.oracle.programs import PROGRAMS
from tests.oracle.results import Result
from tests.oracle.scene import STEPS_AFTER, QueryScene, Rows, add_steps
from tests.oracle.session import BatchWriter, StateSnapshots, input_rows, output_rows, run
from tests.oracle.stores import STORES, writes_snapshots_soon

QUIET_S = 30.0


@dataclass(frozen=True, slots=True)
class Prepared:
    program: Program
    scene: QueryScene
    expected: Rows


class PreparationFailed(Exception):
    """Spark refuses the query on this state store, or an undisturbed run fails."""


class Laboratory:
    def __init__(self, spark: SparkSession, work: Path, *, keep: Path, kafka: Callable[[], str]) -> None:
        self._spark = spark
        self._keep = keep
        self._kafka = kafka
        """Starts brokers with the first query that needs them, and returns their addresses."""
        self._work = work
        self._prepared: dict[tuple[str, str], Prepared | PreparationFailed] = {}
        self._expected: dict[str, Rows] = {}
        self._number = 0

    def run(self, cells: Iterable[Cell]) -> Iterator[Result | tuple[Cell, Exception | None]]:
        """Yield a result per cell. A cell whose damage does not apply to its checkpoint yields (cell, None)."""
        for cell in cells:
            try:
                prepared = self._prepare(cell.program, cell.store)
            except PreparationFailed as failure:
                yield cell, failure
                continue
            try:
                result = self._run_cell(cell, prepared)
            except OperationFailed as failure:
                yield cell, failure
                continue
            yield result if result is not None else (cell, None)

    def _run_cell(self, cell: Cell, prepared: Prepared) -> Result | None:
        self._number += 1
        scene = prepared.scene.copy(self._work / "cells" / f"{self._number}")
        if cell.death in OPERATIONS:
            OPERATIONS[cell.death](self._spark, prepared.program, scene)
        else:
            DEATHS[cell.death](scene)
        if cell.damage and not apply_damage(cell.damage, scene):
            shutil.rmtree(scene.home)
            return None
        kept = QueryScene(scene.input, self._keep / f"{uuid.uuid4().hex[:12]}")
        shutil.copytree(scene.home, kept.home, ignore=shutil.ignore_patterns("*.parquet"))
        kept.rename_schemas(scene.home, kept.home)
        answer = ask(self._spark, prepared.program, scene, prepared.expected)
        shutil.rmtree(scene.home, ignore_errors=True)
        return Result(cell, answer, judge(prepared.program, kept), kept.home.name)

    def _prepare(self, name: str, store: str) -> Prepared:
        key = (name, store)
        if key not in self._prepared:
            try:
                self._prepared[key] = self._build(name, store)
            except PreparationFailed as failure:
                self._prepared[key] = failure
        prepared = self._prepared[key]
        if isinstance(prepared, PreparationFailed):
            raise prepared
        return prepared

    def _build(self, name: str, store: str) -> Prepared:
        program = next(program for program in PROGRAMS if program.name == name)
        conf: Mapping[str, str] = {} if store == STATELESS else STORES[store]
        program = replace(program, conf={**program.conf, **conf})
        folder = self._work / f"{name}-{store}"
        scene = QueryScene(folder / "in", folder / "prepared")
        snapshots = StateSnapshots(scene.checkpoint) if writes_snapshots_soon(store) else None
        stops = range(1, program.steps_before + 1) if program.step_by_step else [program.steps_before]
        for start, end in pairwise([0, *stops]):
            self._feed(program, scene.input, start, end)
            self._run_undisturbed(program, scene, BatchWriter(scene.out, wait_in_last=snapshots))
        _wait_until_quiet(scene.checkpoint)
        self._feed(program, scene.input, program.steps_before, program.steps_before + STEPS_AFTER)
        return Prepared(program, scene, self._expected_rows(program, scene, folder / "undisturbed"))

    def _feed(self, program: Program, folder: Path, first: int, end: int) -> None:
        add_steps(folder, first, end)
        if program.source == "kafka":
            topic = open_topic(self._kafka(), folder)
            for step in range(first, end):
                topic.add_step(step)

    def _expected_rows(self, program: Program, prepared: QueryScene, home: Path) -> Rows:
        """Return the rows that a query must have written in the end. They are the same for all state stores."""
        if program.name not in self._expected:
            self._expected[program.name] = self._find_expected_rows(program, prepared, home)
        return self._expected[program.name]

    def _find_expected_rows(self, program: Program, prepared: QueryScene, home: Path) -> Rows:
        if program.expected == "input":
            return input_rows(prepared.input)
        is_continued = program.expected == "continued"
        scene = prepared.copy(home) if is_continued else QueryScene(prepared.input, home)
        self._run_undisturbed(program, scene, BatchWriter(scene.out), later=is_continued)
        return output_rows(self._spark, program, scene)

    def _run_undisturbed(self, program: Program, scene: QueryScene, sink: BatchWriter, *, later: bool = False) -> None:
        error = run(self._spark, program, scene, sink, later=later)
        if error is not None:
            raise PreparationFailed(error)


def _wait_until_quiet(checkpoint: Path) -> None:
    """Wait until background maintenance no longer writes files."""
    seen: list[object] = []

    def is_quiet() -> bool:
        seen.append({file: file.stat().st_mtime_ns for file in checkpoint.glob("**/*")})
        return len(seen) > 5 and all(each == seen[-1] for each in seen[-6:])

    wait_until(is_quiet, QUIET_S, "no more writes of state maintenance", every_s=0.25)
