"""Find the reason why a server process ended, from its log and exit code. Pure."""

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
    """One log record: its first line and the stack trace below it."""

    level: str
    text: str
    trace: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """The text with its root cause."""
        causes = [line for line in self.trace if line and not line.startswith(("\t", " "))]
        return ": ".join([self.text, *(line.removeprefix("Caused by: ").strip() for line in causes[-1:])])


def explain_exit(*, log: str, console: str, exit_code: int, directory: str) -> str:
    """Return the reason of the exit as one clause, which refers to the server as "it".

    `log` and `console` are the output of the last run. `exit_code` is negative for a signal.
    """
    if signal_name := _terminating_signal(exit_code):
        return f"it was terminated by {signal_name}"
    records = _parse_records(log)
    if port := _port_in_use(records):
        return f"port {port} on {LOOPBACK} is in use by another program"
    # Skip "Exiting JVM with code 1": it is the last error of every exit.
    errors = [record.message for record in records if record.level == "ERROR" and "Exiting JVM" not in record.text]
    if errors and (disk := _DISK.search(errors[-1])):
        return f"it cannot write to its directory {directory}: {disk[0]}"
    if errors:
        return f'the last error in its log is "{errors[-1]}"'
    if printed := [line.strip() for line in console.splitlines() if line.strip() and "Picked up" not in line]:
        # Java prints the reason first, then advice.
        return f'it printed "{printed[0]}"'
    return f"it ended with exit code {exit_code} and logged no error"


def _parse_records(log: str) -> list[_Record]:
    records: list[_Record] = []
    for line in log.splitlines():
        if header := _HEADER.match(line):
            records.append(_Record(header[1], header[2].strip()))
        elif records:
            records[-1].trace.append(line)
    return records


def _port_in_use(records: list[_Record]) -> str:
    """Return the port of a failed bind, or an empty string. The error lacks the port: use the last one logged before it."""
    last_port = ""
    for record in records:
        for port in _PORT.finditer(record.text):
            last_port = port[1]
        if record.level == "ERROR" and "BindException" in record.message:
            return last_port
    return ""


def _terminating_signal(exit_code: int) -> str:
    # Java handles these signals and exits with 128 plus the signal's number.
    handled = {128 + number: number.name for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    if exit_code >= 0:
        return handled.get(exit_code, "")
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
