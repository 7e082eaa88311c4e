"""Holdfast and Spark agree on some checkpoints of the matrix. `make oracle` compares all of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracle.__main__ import run_cells
from tests.oracle.cells import Cell, all_cells, select_cells
from tests.oracle.report import disagreements, summary_table
from tests.oracle.results import DISAGREE, Result, read_results

SHORT_LANE = [
    "global/hdfs/before commit",
    "limit/hdfs/before tasks",
    "keyed/hdfs/clean stop",
    "keyed/hdfs/before sink",
    "keyed/hdfs/failed first batch",
    "keyed/hdfs/clean stop/offsets newest: cut in half",
    "keyed/hdfs/clean stop/commits newest: cut after its first line",
    "keyed/hdfs/clean stop/state delta newest: deleted",
    "keyed/hdfs/clean stop/state delta oldest: zeroed",
    "keyed/hdfs/clean stop/operator metadata: deleted",
    "keyed/hdfs/clean stop/newest batch forgotten",
    "keyed/rocksdb/repartitioned to 3",
]


def run_matrix(cells: list[Cell], folder: Path, report: Callable[[str], None]) -> list[Result]:
    run_cells(cells, folder / "work", folder / "out")
    results = list(read_results(folder / "out"))
    for line in (*disagreements(results).splitlines(), *summary_table(results).splitlines()):
        report(line)
    return results


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_holdfast_and_spark_agree_on_some_checkpoints(tmp_path: Path, report: Callable[[str], None]) -> None:
    results = run_matrix(select_cells(all_cells(), SHORT_LANE), tmp_path, report)
    assert [result.cell.name for result in results if result.agreement == DISAGREE] == []
    assert len(results) == len(SHORT_LANE)
