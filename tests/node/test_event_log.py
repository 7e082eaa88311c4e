"""Event log of a node."""

import json
from pathlib import Path

from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Event
from holdfast.model.phase import Phase
from holdfast.node.event_log import FILES_MAX, EventLog


def event(number: int, reason: str = "attempt 2 läuft auf n1") -> Event:
    return Event(number, 1_769_860_800.1234, Phase.RUNNING, reason, Attempt(2), NodeId("n1"), Epoch(7))


def test_line_has_the_documented_fields(tmp_path: Path) -> None:
    EventLog(tmp_path / "events.jsonl").append(JobId("j1"), event(4))
    (line,) = (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()
    fields = json.loads(line)
    assert fields == {
        "time": "2026-01-31T12:00:00.123Z",
        "job": "j1",
        "number": 4,
        "phase": "RUNNING",
        "reason": "attempt 2 läuft auf n1",
        "attempt": 2,
        "node": "n1",
        "epoch": 7,
    }
    manual = Path("docs/operations.md").read_text(encoding="utf-8")
    (example,) = (line for line in manual.splitlines() if line.startswith('{"time"'))
    assert list(json.loads(example)) == list(fields)


def test_log_is_bounded_and_drops_the_oldest_events(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", file_bytes_max=1000)
    for number in range(200):
        log.append(JobId("j1"), event(number))
    files = sorted(tmp_path.iterdir())
    assert len(files) == FILES_MAX + 1
    assert all(file.stat().st_size < 1500 for file in files)
    assert json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])["number"] == 199


def test_write_error_is_ignored(tmp_path: Path) -> None:
    EventLog(tmp_path / "missing" / "events.jsonl").append(JobId("j1"), event(1))
