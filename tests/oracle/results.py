"""Results of cells, and their file, from which checkpoints can be judged again without Spark."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.oracle.cells import Cell, all_cells
from tests.oracle.judge import DAMAGED, UNKNOWN, WHOLE, Judgement, judge
from tests.oracle.oracle import RIGHT, Answer
from tests.oracle.programs import PROGRAMS
from tests.oracle.scene import QueryScene

AGREE, DISAGREE = "agree", "DISAGREE"
RESULTS, SCENES = "results.jsonl", "scenes"


@dataclass(frozen=True, slots=True)
class Result:
    cell: Cell
    spark: Answer
    holdfast: Judgement
    folder: str
    """Name of the folder that keeps the checkpoint as it was before Spark continued."""

    @property
    def agreement(self) -> str:
        """Agreement of both verdicts. `unknown` is a separate result: the files prove nothing."""
        if self.holdfast.verdict == UNKNOWN:
            return UNKNOWN
        return AGREE if self.holdfast.verdict == (WHOLE if self.spark.verdict == RIGHT else DAMAGED) else DISAGREE


def encode_result(result: Result) -> str:
    """Return a result as a line of JSON."""
    fields = {"cell": result.cell.name, "spark": result.spark.verdict, "spark_detail": result.spark.detail}
    ours = {"holdfast": result.holdfast.verdict, "holdfast_detail": result.holdfast.detail, "agreement": result.agreement}
    return json.dumps({**fields, **ours, "folder": result.folder}) + "\n"


def read_results(out: Path) -> Iterator[Result]:
    """Return the results of earlier runs with the same folder, for cells that are still in the matrix."""
    file = out / RESULTS
    cells = set(all_cells())
    for line in file.read_text().splitlines() if file.exists() else ():
        fields = json.loads(line)
        answer = Answer(fields["spark"], fields["spark_detail"])
        cell = Cell(*fields["cell"].split("/", 3))
        if cell in cells:
            yield Result(cell, answer, Judgement(fields["holdfast"], fields["holdfast_detail"]), fields["folder"])


def judge_again(out: Path) -> list[Result]:
    """Judge the kept checkpoints with the present code. Spark is not asked again."""
    programs = {program.name: program for program in PROGRAMS}
    results = [
        replace(result, holdfast=judge(programs[result.cell.program], QueryScene(out, out / SCENES / result.folder)))
        for result in read_results(out)
    ]
    (out / RESULTS).write_text("".join(map(encode_result, results)))
    return results
