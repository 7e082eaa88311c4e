"""Play a situation, by its name, and keep what was logged."""

import argparse
import tempfile
from pathlib import Path

from tests.explain.record import flink, kafka, spark, streaming, zookeeper
from tests.explain.record.keeping import Scrub, keep

SYSTEMS = (zookeeper, kafka, spark, streaming, flink)
SITUATIONS = {name: play for system in SYSTEMS for name, play in system.SITUATIONS.items()}


def main() -> None:
    told = argparse.ArgumentParser(prog="python -m tests.explain.record", description=__doc__)
    told.add_argument("name", choices=sorted(SITUATIONS))
    told.add_argument("out", type=Path)
    asked = told.parse_args()
    with tempfile.TemporaryDirectory(prefix="record-") as scratch:
        logs = SITUATIONS[asked.name](Path(scratch))
        for name, log in sorted(logs.items()):
            keep(log, asked.out / asked.name / f"{name}.log.gz", Scrub.of(Path(scratch)))


if __name__ == "__main__":
    main()
