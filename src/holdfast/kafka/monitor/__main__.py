"""Kafka monitor process: `python -m holdfast.kafka.monitor`. The driver describes its queries on standard input."""

import contextlib
import os
import select
import sys
import time

from holdfast.driver_protocol.control_files import KAFKA_STATUS_FILE, write_control_file
from holdfast.driver_protocol.kafka_messages import (
    FailureDiagnosis,
    MonitorAnswer,
    MonitoredQuery,
    MonitorRequest,
    ParkRequired,
    QueryRejected,
    StartAllowed,
    WatchQuery,
    encode_message,
    parse_request,
)
from holdfast.driver_protocol.kafka_status import KafkaStatus
from holdfast.errors import HoldfastError, Refused
from holdfast.kafka.check.park_policy import ParkDecision, ParkVerdict
from holdfast.kafka.monitor.monitor_settings import MonitorSettings
from holdfast.kafka.monitor.query_monitor import QueryMonitor

FIRST_CHECK_S = 5.0
IDLE_S = 3600.0
RECENT_PROBLEMS_MAX = 3


class KafkaMonitor:
    """Monitor of all queries of one driver. The messages are defined in `driver_protocol.kafka_messages`."""

    def __init__(self, settings: MonitorSettings) -> None:
        self._settings = settings
        self._monitors: dict[str, QueryMonitor] = {}
        self._waiting: set[str] = set()
        """Locations of queries that the driver may not start yet."""
        self._choice_notes: dict[str, str] = {}
        self._last_status: KafkaStatus | None = None
        self._recent_problems: list[str] = []
        """Problems since Kafka was last healthy. They stay after recovery, until the next problem."""
        self._healthy = True
        self._parked = False
        """True after a park message. The status file is not written any more."""

    def pause_s(self, now: float) -> float:
        return max(0.0, min((monitor.due_at for monitor in self._monitors.values()), default=now + IDLE_S) - now)

    def handle_message(self, message: MonitorRequest) -> None:
        if isinstance(message, WatchQuery):
            self._add_query(message.query, before_start=message.before_start)
        else:
            _send(self._recheck())

    def _add_query(self, query: MonitoredQuery, *, before_start: bool) -> None:
        location = query.location
        try:
            monitor = QueryMonitor(self._settings, query)
            if before_start and (note := monitor.apply_choice()):
                self._choice_notes[location] = note
        except Refused as error:
            _send(QueryRejected(location, str(error)))
            return
        except HoldfastError as error:
            _log_error(f"{location}: {error}")
            monitor = QueryMonitor(self._settings, query)
        self._monitors[location] = monitor
        if before_start:
            self._waiting.add(location)
        else:
            monitor.due_at = time.monotonic() + FIRST_CHECK_S

    def run_due_checks(self, now: float) -> None:
        for location, monitor in list(self._monitors.items()):
            if monitor.due_at <= now:
                try:
                    self._apply_decision(location, monitor, monitor.check(now))
                except Refused as error:
                    self._drop_query(location, str(error))
                except HoldfastError as error:  # the record could not be written: the next check tries again
                    _log_error(f"{location}: {error}")
                    monitor.due_at = now + self._settings.check_s
        self._write_status()

    def _apply_decision(self, location: str, monitor: QueryMonitor, decision: ParkDecision) -> None:
        if decision.verdict is ParkVerdict.PARK:
            self._write_status()
            self._parked = True
            del self._monitors[location]
            _send(ParkRequired(location, monitor.park_reason()))
        elif decision.verdict is ParkVerdict.GO and location in self._waiting:
            self._waiting.discard(location)
            monitor.due_at = time.monotonic() + FIRST_CHECK_S
            with contextlib.suppress(HoldfastError):
                monitor.clear_park_findings()
            _send(StartAllowed(location))

    def _drop_query(self, location: str, sentence: str) -> None:
        self._monitors.pop(location, None)
        if location in self._waiting:
            self._waiting.discard(location)
            _send(QueryRejected(location, sentence, node_lacks_dependency=True))
        else:
            _log_error(f"the offsets of {location} are no longer checked: {sentence}")

    def _recheck(self) -> FailureDiagnosis:
        """Check all queries now and return the worst verdict: the driver asks whether Kafka caused a failure."""
        worst, sentence = ParkVerdict.GO, ""
        for monitor in self._monitors.values():
            with contextlib.suppress(HoldfastError):
                decision = monitor.check(time.monotonic())
                if decision.needs_confirmation:
                    time.sleep(decision.next_check_s)
                    decision = monitor.check(time.monotonic())
                if decision.verdict is ParkVerdict.PARK:
                    return FailureDiagnosis(ParkVerdict.PARK, monitor.park_reason())
                if decision.verdict is ParkVerdict.WAIT:
                    worst, sentence = ParkVerdict.WAIT, decision.note
        return FailureDiagnosis(worst, sentence)

    def _write_status(self) -> None:
        """Write note and lag for the runner. The note about an operator's choice stays for the whole attempt."""
        status = KafkaStatus(self._note(), tuple(each for monitor in self._monitors.values() for each in monitor.lag))
        if status == self._last_status or self._parked:
            return
        if write_control_file(str(self._settings.control), KAFKA_STATUS_FILE, status.to_json()):
            self._last_status = status

    def _note(self) -> str:
        """Return the note for people. It names problems that are over, too: the leader reads notes only from time to time."""
        waiting = [monitor.note for location, monitor in self._monitors.items() if location in self._waiting and monitor.note]
        running = [
            monitor.note for location, monitor in self._monitors.items() if location not in self._waiting and monitor.note
        ]
        now = "; ".join(waiting or running)
        if now and self._healthy:
            self._recent_problems = []
        self._healthy = not now
        if now and now not in self._recent_problems:
            self._recent_problems = [*self._recent_problems, now][-RECENT_PROBLEMS_MAX:]
        parts = list(self._choice_notes.values())
        if now:
            parts.append(f"waiting for Kafka before the query starts: {now}" if waiting else f"Kafka: {now}")
        elif self._recent_problems:
            parts.append(f"Kafka is healthy again, after: {'; '.join(self._recent_problems)}")
        return "; ".join(parts)


def _send(answer: MonitorAnswer) -> None:
    sys.stdout.buffer.write(encode_message(answer))
    sys.stdout.buffer.flush()


def _log_error(sentence: str) -> None:
    sys.stderr.write(f"holdfast: {sentence}\n")
    sys.stderr.flush()


def main() -> int:
    try:
        kafka_monitor = KafkaMonitor(MonitorSettings.from_environment(os.environ))
    except (Refused, KeyError) as error:
        _log_error(f"the Kafka monitor cannot start: {error}")
        return 2
    buffer = b""
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        while True:
            if select.select([0], [], [], kafka_monitor.pause_s(time.monotonic()))[0]:
                data = os.read(0, 1 << 16)
                if not data:
                    return 0  # the driver has closed the pipe
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    if (request := parse_request(line)) is not None:
                        kafka_monitor.handle_message(request)
            kafka_monitor.run_due_checks(time.monotonic())
    return 0


if __name__ == "__main__":
    sys.exit(main())
