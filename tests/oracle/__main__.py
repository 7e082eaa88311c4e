"""Command line of the oracle matrix."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.harness.kafka.brokers import kraft_brokers
from tests.harness.kafka.jars import connector_jars
from tests.oracle.cells import Cell, all_cells, programs_of, select_cells
from tests.oracle.java_classes import compile_classes
from tests.oracle.laboratory import Laboratory
from tests.oracle.report import disagreements, result_table, summary_table
from tests.oracle.results import DISAGREE, RESULTS, SCENES, Result, encode_result, judge_again, read_results
from tests.oracle.session import spark_session


def main() -> int:
    arguments = _parse_arguments()
    cells = select_cells(all_cells(), arguments.cells or ["*"])
    if arguments.list:
        sys.stdout.writelines(f"{cell.name}\n" for cell in cells)
        return 0
    with tempfile.TemporaryDirectory(prefix="oracle-") as work:
        out: Path = arguments.out or Path(work) / "out"
        if arguments.judge_again:
            results = judge_again(out)
        else:
            known = {result.cell for result in read_results(out)}
            run_cells([cell for cell in cells if cell not in known], Path(work), out)
            results = list(read_results(out))
        (out / "report.txt").write_text("\n".join((result_table(results), disagreements(results), summary_table(results))))
        sys.stdout.write(f"\n{disagreements(results)}\n{summary_table(results)}")
    return 1 if any(result.agreement == DISAGREE for result in results) else 0


def run_cells(cells: Sequence[Cell], work: Path, out: Path) -> None:
    """Run cells in one Spark session, print progress, and append each result to the file of results."""
    start = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as resources:
        spark = resources.enter_context(spark_session(work / "warehouse", session_conf(cells, work)))
        log = resources.enter_context((out / RESULTS).open("a"))
        kafka = cache(lambda: resources.enter_context(kraft_brokers(work / "kafka", size=1)).bootstrap)
        laboratory = Laboratory(spark, work, keep=out / SCENES, kafka=kafka)
        for number, result in enumerate(laboratory.run(cells), 1):
            if isinstance(result, Result):
                log.write(encode_result(result))
                log.flush()
                text = f"{result.agreement:<9}{result.spark.verdict:<11}{result.holdfast.verdict:<8} {result.cell.name}"
            else:
                cell, failure = result
                text = f"{'failed' if failure is not None else 'no file':<9}{cell.name} {str(failure or '')[:300]}"
            sys.stdout.write(f"{time.monotonic() - start:6.0f} s {number}/{len(cells)} {text}\n")
            sys.stdout.flush()


def session_conf(cells: Sequence[Cell], work: Path) -> dict[str, str]:
    """Return the settings for classes that are not part of Spark, if a query needs them."""
    conf = {}
    if any(program.source == "kafka" for program in programs_of(cells)):
        conf["spark.jars"] = ",".join(map(str, connector_jars()))
    if any(program.needs_java_classes for program in programs_of(cells)):
        conf["spark.driver.extraClassPath"] = str(compile_classes(work / "classes"))
    return conf


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description="Compare Holdfast's verdicts with Spark.")
    parser.add_argument("--cells", action="append", metavar="PATTERN", help="cells to run, such as 'keyed/hdfs/*'")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the results; cells with a result do not run again")
    parser.add_argument("--judge-again", action="store_true", help="judge the checkpoints in DIR again, without Spark")
    parser.add_argument("--list", action="store_true", help="list the cells and end")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
