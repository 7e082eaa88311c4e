"""Command line of the program trials."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.programs.catalogue import PROGRAMS
from tests.programs.report import result_table
from tests.programs.run import select_programs, start_program_cluster


def main() -> int:
    arguments = _parse_arguments()
    start = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - start:6.0f} s  {text}\n")
        sys.stdout.flush()

    if arguments.list:
        sys.stdout.writelines(f"{program.name:<24}{program.like}\n" for program in PROGRAMS)
        return 0
    with tempfile.TemporaryDirectory(prefix="programs-") as directory:
        say("starting the cluster")
        with start_program_cluster(Path(directory), say) as cluster:
            trials = cluster.run_all(select_programs(arguments.only), parallel=arguments.parallel)
    sys.stdout.write(f"\n{result_table(trials)}")
    return 1 if any(trial.failed for trial in trials) else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.programs",
        description="Run programs like Spark's examples through kills, stops, savepoints and upgrades, and print a table.",
    )
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--only", action="append", default=[], choices=names, metavar="NAME", help="run only this program")
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="run so many programs at once (default: 1)")
    parser.add_argument("--list", action="store_true", help="list the programs and end")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
