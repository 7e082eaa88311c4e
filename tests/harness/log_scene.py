"""Synthetic logs of several machines, each with its own clock and format, with routine lines in between."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from tests.harness.log_situations import DAY, flink_line, kafka_line, zookeeper_line

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
class LogWriter:
    """Writer of one log."""

    system: str
    name: str
    number: int
    behind: timedelta = timedelta()
    lines: list[tuple[datetime, str]] = field(default_factory=list)

    def log(self, moment: datetime, message: str, *, level: str = "INFO", thread: str = "", logger: str = "") -> None:
        """Log a message at a true time; the machine's clock may differ."""
        clock = moment - self.behind
        self.lines.append((clock, self._line(clock, message, level, thread, logger)))

    def _line(self, clock: datetime, message: str, level: str, thread: str, logger: str) -> str:
        if self.system == "zookeeper":
            return zookeeper_line(
                clock, self.number, thread or f"QuorumPeer[myid={self.number}](plain=0.0.0.0:2181):QuorumPeer@1", message, level
            )
        if self.system == "spark":
            return f"{clock:%y/%m/%d %H:%M:%S} {level} {logger or _LOGGERS['spark']}: {message}\n"
        write = kafka_line if self.system == "kafka" else flink_line
        return write(clock, message, logger or _LOGGERS[self.system], level)


class LogScene:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.begin = DAY + timedelta(days=self.random.randrange(300), seconds=self.random.randrange(80_000))
        self.machines: list[LogWriter] = []

    def machine(self, system: str, number: int) -> LogWriter:
        """Add a machine whose clock is synchronized within a few milliseconds."""
        machine = LogWriter(system, f"{system}-{number}", number, timedelta(milliseconds=self.random.randrange(-8, 9)))
        self.machines.append(machine)
        return machine

    def ensemble(self, size: int = 3) -> list[LogWriter]:
        return [self.machine("zookeeper", number) for number in range(1, size + 1)]

    def at(self, seconds: float) -> datetime:
        return self.begin + timedelta(seconds=seconds)

    def session(self) -> str:
        return f"0x{self.random.randrange(1 << 56, 1 << 57):x}"

    def job(self) -> str:
        return f"{self.random.randrange(1 << 127, 1 << 128):032x}"

    def write(self, directory: Path) -> list[Path]:
        """Write the logs, with routine lines from ten minutes before to ten minutes after, each in a random wrapper."""
        files = []
        for machine in self.machines:
            for _ in range(self.random.randrange(20, 200)):
                text = self.random.choice(ROUTINE[machine.system])
                message = text.format(n=self.random.randrange(1 << 40), k=self.random.randrange(9))
                machine.log(self.at(self.random.uniform(-600, 600)), message, thread="main:Routine@1")
            lines = [line for _, line in sorted(machine.lines, key=lambda pair: pair[0])]
            files.append(directory / f"{machine.name}.log")
            files[-1].write_text("".join(_wrap(lines, self.random.choice(WRAPPERS), machine)))
        return files


def _wrap(records: list[str], wrapper: str, machine: LogWriter) -> list[str]:
    lines = [line for record in records for line in record.splitlines(keepends=True)]
    if wrapper == "kubernetes":
        return [f"2026-01-01T00:00:00.{number:09d}Z stdout F {line}" for number, line in enumerate(lines)]
    if wrapper == "journald":
        return [f"Jan  1 00:00:00 host{machine.number} {machine.system}[77]: {line}" for line in lines]
    return lines
