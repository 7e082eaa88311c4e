"""Logs of made-up machines: who says what when, each by a clock and in a shape of its own, with routine between."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from tests.explain.situations import DAY, flink, kafka, zookeeper

ROUTINE = {
    "zookeeper": [
        "Purge task started.",
        "Snapshotting: 0x{n:x} to /data/version-2/snapshot.{n:x}",
        "The digest value is empty in snapshot",
        "Processed session termination for sessionid: 0x{n:x}",
        "Notification: my state:FOLLOWING; n.sid:{k}, n.state:FOLLOWING, n.leader:2, n.round:0x1",
        "Accepted socket connection from /10.0.0.{k}:{n}",
    ],
    "kafka": [
        "[Log partition=clicks-{k}, dir=/data] Rolled new log segment at offset {n} in 3 ms.",
        "[GroupCoordinator {k}]: Stabilized group g{k} generation {n}",
        "[LocalLog partition=clicks-{k}, dir=/data] Deleting segment files LogSegment(baseOffset={n}, size=7)",
    ],
    "flink": [
        "Triggering checkpoint {n} (type=CheckpointType{{name='Checkpoint'}}) @ {n}.",
        "Source: clicks -> Sink (1/{k}) (deployed) switched from DEPLOYING to INITIALIZING.",
        "Registering TaskManager with ResourceID tm-{k} at ResourceManager",
    ],
    "spark": [
        "Registered app word-count with ID app-{n}",
        "Added executor app/{k} on worker-{k}",
        "Starting task {k}.0 in stage {n}.0",
    ],
}
_LOGGERS = {
    "kafka": "kafka.log.UnifiedLog",
    "flink": "org.apache.flink.runtime.checkpoint.CheckpointCoordinator",
    "spark": "Master",
}
WRAPPERS = ("", "", "kubernetes", "journald")


@dataclass
class Machine:
    """Writes one log."""

    system: str
    name: str
    number: int
    behind: timedelta = timedelta()
    said: list[tuple[datetime, str]] = field(default_factory=list)

    def says(self, moment: datetime, message: str, *, level: str = "INFO", thread: str = "", logger: str = "") -> None:
        """At a true moment, which its clock may tell otherwise."""
        clock = moment - self.behind
        self.said.append((clock, self._line(clock, message, level, thread, logger)))

    def _line(self, clock: datetime, message: str, level: str, thread: str, logger: str) -> str:
        if self.system == "zookeeper":
            return zookeeper(
                clock, self.number, thread or f"QuorumPeer[myid={self.number}](plain=0.0.0.0:2181):QuorumPeer@1", message, level
            )
        if self.system == "spark":
            return f"{clock:%y/%m/%d %H:%M:%S} {level} {logger or _LOGGERS['spark']}: {message}\n"
        write = kafka if self.system == "kafka" else flink
        return write(clock, message, logger or _LOGGERS[self.system], level)


class Scene:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.begin = DAY + timedelta(days=self.chance.randrange(300), seconds=self.chance.randrange(80_000))
        self.machines: list[Machine] = []

    def machine(self, system: str, number: int) -> Machine:
        """One that is kept in step with the others, as far as machines are."""
        machine = Machine(system, f"{system}-{number}", number, timedelta(milliseconds=self.chance.randrange(-8, 9)))
        self.machines.append(machine)
        return machine

    def ensemble(self, size: int = 3) -> list[Machine]:
        return [self.machine("zookeeper", number) for number in range(1, size + 1)]

    def at(self, seconds: float) -> datetime:
        return self.begin + timedelta(seconds=seconds)

    def session(self) -> str:
        return f"0x{self.chance.randrange(1 << 56, 1 << 57):x}"

    def job(self) -> str:
        return f"{self.chance.randrange(1 << 127, 1 << 128):032x}"

    def write(self, directory: Path) -> list[Path]:
        """With routine from ten minutes before to ten minutes after, each log in a shape of its own."""
        files = []
        for machine in self.machines:
            for _ in range(self.chance.randrange(20, 200)):
                text = self.chance.choice(ROUTINE[machine.system])
                message = text.format(n=self.chance.randrange(1 << 40), k=self.chance.randrange(9))
                machine.says(self.at(self.chance.uniform(-600, 600)), message, thread="main:Routine@1")
            lines = [line for _, line in sorted(machine.said, key=lambda pair: pair[0])]
            files.append(directory / f"{machine.name}.log")
            files[-1].write_text("".join(_wrapped(lines, self.chance.choice(WRAPPERS), machine)))
        return files


def _wrapped(records: list[str], wrapper: str, machine: Machine) -> list[str]:
    lines = [line for record in records for line in record.splitlines(keepends=True)]
    if wrapper == "kubernetes":
        return [f"2026-01-01T00:00:00.{number:09d}Z stdout F {line}" for number, line in enumerate(lines)]
    if wrapper == "journald":
        return [f"Jan  1 00:00:00 host{machine.number} {machine.system}[77]: {line}" for line in lines]
    return lines
