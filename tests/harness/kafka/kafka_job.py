"""Streaming job on a real cluster that reads a test topic, with its output and status."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast.kafka.check.last_known import JobLastKnown, decode_last_known
from tests.harness.cluster.jobs import FIRST_BATCH_S, ClusterJobs, poll_until
from tests.harness.cluster.streams import read_committed_lines
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.topic import Topic

SCRIPT = Path(__file__).parent / "scripts" / "stream.py"
CHECK_S = 3


class KafkaJob:
    def __init__(self, jobs: ClusterJobs, topic: Topic, name: str, *arguments: str, **conf: str) -> None:
        self.jobs = jobs
        self.topic = topic
        self.output = jobs.directory / f"{name}-output"
        script_arguments = ("--servers", topic.bootstrap, "--topic", topic.name, "--output", str(self.output), *arguments)
        settings = {
            "spark.jars": ",".join(map(str, connector_jars())),
            "holdfast.kafka.check": f"{CHECK_S}s",
            **{key.replace("_", "."): value for key, value in conf.items()},
        }
        self.id = jobs.submit(SCRIPT, name, *script_arguments, conf=settings)

    # Output

    def output_lines(self) -> Counter[str]:
        """Return the count of each output line, "partition offset value"."""
        return read_committed_lines(self.output) if (self.output / "_spark_metadata").exists() else Counter()

    def output_values(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for line, times in self.output_lines().items():
            counts[line.rsplit(" ", 1)[1]] += times
        return counts

    def wait_for_records(self, count: int, within_s: float = FIRST_BATCH_S) -> None:
        poll_until(lambda: sum(self.output_lines().values()) >= count, within_s, f"{count} records in the output")

    # Status

    @property
    def view(self) -> dict[str, Any]:
        return self.jobs[self.id]

    def show_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.jobs.run_ok("show", self.id, "--json"))
        return shown

    def findings(self) -> list[dict[str, Any]]:
        kafka = self.show_json()["kafka"]
        return [finding for source in kafka["sources"] for finding in source["findings"] if finding["weight"] > 1]

    def event_reasons(self) -> list[str]:
        return [event["reason"] for event in self.jobs.events(self.id)]

    def wait_until_parked(self, within_s: float = 120) -> dict[str, Any]:
        return self.jobs.wait_for_phase(self.id, "PARKED", timeout_s=within_s)

    def last_known(self) -> JobLastKnown:
        file = self.jobs.checkpoint(self.id) / "_holdfast" / "kafka.json"
        return decode_last_known(file.read_bytes() if file.exists() else None)

    def wait_until_checked(self, offset: int, number: int = 0) -> None:
        """Wait until the monitor has recorded this offset as checked."""

        def is_checked() -> bool:
            topics = [topic for source in self.last_known().sources for topic in source.memory.topics]
            parts = [topic.partition(number) for topic in topics]
            return any(part is not None and part.until >= offset for part in parts)

        poll_until(is_checked, FIRST_BATCH_S, f"the monitor has checked offset {offset}")

    def stop(self) -> None:
        self.jobs.run_ok("stop", self.id, "--wait")

    def cancel(self) -> None:
        self.jobs.run_ok("cancel", self.id, "--wait")
