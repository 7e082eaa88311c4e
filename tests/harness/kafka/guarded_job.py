"""A streaming job on a real cluster that reads a topic of the tests, and what it has written."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast.kafka.check.last_known import Kept, kept_in
from tests.harness.cluster.jobs import FIRST_BATCH_S, Jobs, until
from tests.harness.cluster.streams import output_of
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.topic import Topic

SCRIPT = Path(__file__).parent / "scripts" / "stream.py"
CHECK_S = 3


class Guarded:
    def __init__(self, jobs: Jobs, topic: Topic, name: str, *arguments: str, **conf: str) -> None:
        self.jobs = jobs
        self.topic = topic
        self.output = jobs.directory / f"{name}-output"
        said = ("--servers", topic.bootstrap, "--topic", topic.name, "--output", str(self.output), *arguments)
        settings = {
            "spark.jars": ",".join(map(str, connector_jars())),
            "holdfast.kafka.check": f"{CHECK_S}s",
            **{key.replace("_", "."): value for key, value in conf.items()},
        }
        self.id = jobs.submit(SCRIPT, name, *said, conf=settings)

    # What it has written

    def lines(self) -> Counter[str]:
        """`partition offset value`, and how often."""
        return output_of(self.output) if (self.output / "_spark_metadata").exists() else Counter()

    def values(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for line, times in self.lines().items():
            counted[line.rsplit(" ", 1)[1]] += times
        return counted

    def until_written(self, count: int, within_s: float = FIRST_BATCH_S) -> None:
        until(lambda: sum(self.lines().values()) >= count, within_s, f"{count} records are written")

    # How it stands

    @property
    def view(self) -> dict[str, Any]:
        return self.jobs[self.id]

    def shown(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.jobs.ok("show", self.id, "--json"))
        return told

    def findings(self) -> list[dict[str, Any]]:
        kafka = self.shown()["kafka"]
        return [finding for source in kafka["sources"] for finding in source["findings"] if finding["weight"] > 1]

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.jobs.events(self.id)]

    def parked(self, within_s: float = 120) -> dict[str, Any]:
        return self.jobs.in_phase(self.id, "PARKED", within_s=within_s)

    def remembered(self) -> Kept:
        file = self.jobs.checkpoint(self.id) / "_holdfast" / "kafka.json"
        return kept_in(file.read_bytes() if file.exists() else None)[0]

    def until_looked_at(self, until_offset: int, number: int = 0) -> None:
        """The guard has found in order that the job has read up to there."""

        def seen() -> bool:
            topics = [topic for source in self.remembered().sources for topic in source.memory.topics]
            parts = [topic.partition(number) for topic in topics]
            return any(part is not None and part.until >= until_offset for part in parts)

        until(seen, FIRST_BATCH_S, f"the guard has seen offset {until_offset}")

    def stop(self) -> None:
        self.jobs.ok("stop", self.id, "--wait")

    def end(self) -> None:
        self.jobs.ok("cancel", self.id, "--wait")
