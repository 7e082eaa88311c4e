"""Why a server ended, in one sentence, from what it left behind. Pure."""

import re
import signal
from dataclasses import dataclass, field

from holdfast.zk.embedded.ports import LOOPBACK

_HEADER = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[myid:\d*\] - ([A-Z]+) +\[.*?@\d+\] - (.*)")
_PORT = re.compile(rf"{re.escape(LOOPBACK)}:(\d+)")
_DISK = re.compile(
    r"Not a directory|Is a directory|Permission denied|Read-only file system|No space left on device|Input/output error"
    r"|Unable to create data directory|Disk quota exceeded"
)


@dataclass(slots=True)
class _Record:
    """One entry of the log: its first line, and below it the trace of what caused it."""

    level: str
    text: str
    trace: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        causes = [line for line in self.trace if line and not line.startswith(("\t", " "))]
        # The last cause is the deepest one, and says most.
        return ": ".join([self.text, *(line.removeprefix("Caused by: ").strip() for line in causes[-1:])])


def explain_exit(*, log: str, console: str, exit_code: int, directory: str) -> str:
    """One sentence from the log of the server's last run, what it printed, and how it ended (negative for a signal)."""
    if ender := _ending_signal(exit_code):
        return f"it was ended by {ender}"
    records = _records(log)
    if port := _port_in_use(records):
        return f"port {port} on {LOOPBACK} is in use by another program"
    # "Exiting JVM with code 1" is the last error of every exit, and says nothing.
    errors = [record.told for record in records if record.level == "ERROR" and "Exiting JVM" not in record.text]
    if errors and (disk := _DISK.search(errors[-1])):
        return f"it cannot write to its directory {directory}: {disk[0]}"
    if errors:
        return f'its log ends with "{errors[-1]}"'
    if printed := [line.strip() for line in console.splitlines() if line.strip() and "Picked up" not in line]:
        # The first line of what Java prints is the reason, the rest is advice.
        return f'it printed "{printed[0]}"'
    return f"it ended with exit code {exit_code} and left no reason"


def _records(log: str) -> list[_Record]:
    records: list[_Record] = []
    for line in log.splitlines():
        if header := _HEADER.match(line):
            records.append(_Record(header[1], header[2].strip()))
        elif records:
            records[-1].trace.append(line)
    return records


def _port_in_use(records: list[_Record]) -> str:
    """The error itself does not say which port it is about: the last one that was named before."""
    named = ""
    for record in records:
        for port in _PORT.finditer(record.text):
            named = port[1]
        if record.level == "ERROR" and "BindException" in record.told:
            return named
    return ""


def _ending_signal(exit_code: int) -> str:
    # Java catches the signals that ask it to end, and then exits by itself with 128 more than their number.
    asked = {128 + number: number.name for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    if exit_code >= 0:
        return asked.get(exit_code, "")
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
