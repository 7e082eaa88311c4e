"""Run a situation by its name and store the logs."""

import argparse
import tempfile
from pathlib import Path

from tests.explain.record import flink, kafka, spark, streaming, zookeeper
from tests.explain.record.log_store import Scrub, store

SYSTEMS = (zookeeper, kafka, spark, streaming, flink)
SITUATIONS = {name: run for system in SYSTEMS for name, run in system.SITUATIONS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.explain.record", description=__doc__)
    parser.add_argument("name", choices=sorted(SITUATIONS))
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="record-") as scratch:
        logs = SITUATIONS[arguments.name](Path(scratch))
        for name, log in sorted(logs.items()):
            store(log, arguments.out / arguments.name / f"{name}.log.gz", Scrub.of(Path(scratch)))


if __name__ == "__main__":
    main()
