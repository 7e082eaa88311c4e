"""Diagnoses of Holdfast's jobs and leaders, from events and node logs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.harness.explain_in_process import explain_logs

BEGIN = datetime(2026, 3, 4, 13, 0, tzinfo=UTC)
JOB, NAME = "j2e99954fe4c9", "clicks"
FAILED = 'the script failed: ValueError: the column "amount" is not there (line 3 of clicks.py)'


def change(number: int, second: float, phase: str, reason: str, *, attempt: int = 1, job: str = JOB, name: str = NAME) -> str:
    """Return an event line as `explain --from-cluster` copies it."""
    event = {
        "time": (BEGIN + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "job": job,
        "name": name,
        "number": number,
        "phase": phase,
        "reason": reason,
        "attempt": attempt,
        "node": "n1" if phase in ("STARTING", "RUNNING") else None,
        "epoch": 1,
    }
    return json.dumps(event, ensure_ascii=False) + "\n"


def attempts(*ends: tuple[float, str, str], job: str = JOB, name: str = NAME) -> str:
    """Return the event lines of attempts; `ends` has (second, phase, reason) of each."""
    lines = ""
    for attempt, (second, phase, reason) in enumerate(ends, 1):
        fields: dict[str, Any] = {"attempt": attempt, "job": job, "name": name}
        lines += change(3 * attempt - 2, second - 2, "STARTING", f"attempt {attempt} was given to n1", **fields)
        lines += change(3 * attempt - 1, second - 1, "RUNNING", f"attempt {attempt} runs on n1", **fields)
        lines += change(3 * attempt, second, phase, reason, **fields)
    return lines


def node(second: float, event: str, *, id: str = "n1", **fields: object) -> str:
    """Return a line of a node's log."""
    time = (BEGIN + timedelta(seconds=second)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.dumps({"component": "agent", "node": id, **fields, "event": event, "level": "info", "time": time}) + "\n"


def diagnoses_of(directory: Path, text: str) -> dict[str, dict[str, Any]]:
    file = directory / "events of the cluster"
    file.write_text(text)
    return {one["signature"]: one for one in explain_logs(file).as_json()["diagnoses"]}


def test_repeated_failures_are_a_restart_loop_with_the_reason(tmp_path: Path) -> None:
    text = attempts(*((200 * n, "BACKOFF", f"{FAILED}; again in {200 * n} s") for n in range(1, 5)))
    found = diagnoses_of(tmp_path, text)
    assert set(found) == {"restart-loop"}
    loop = found["restart-loop"]
    assert loop["title"] == f"job clicks ({JOB}) restarts repeatedly"
    assert loop["explanation"] == f"It was restarted 4 times, the last time after attempt 4. The reason is: {FAILED}."
    assert loop["components"] == ["job clicks"]
    assert "holdfast logs clicks" in loop["advice"]


def test_finished_restart_loop_states_the_current_phase(tmp_path: Path) -> None:
    text = attempts(*((20 * n, "BACKOFF", f"{FAILED}; next attempt in 1 s") for n in range(1, 4)))
    text += change(10, 100, "RUNNING", "attempt 4 runs on n1", attempt=4)
    assert diagnoses_of(tmp_path, text)["restart-loop"]["explanation"].endswith(
        "It has been RUNNING since 2026-03-04 13:01:40."
    )


def test_failures_that_are_hours_apart_are_not_a_loop(tmp_path: Path) -> None:
    text = attempts(*((7200 * n, "BACKOFF", f"{FAILED}; again in 1 s") for n in range(1, 9)))
    assert diagnoses_of(tmp_path, text) == {}


def test_parked_job_is_diagnosed_unless_a_person_stopped_it(tmp_path: Path) -> None:
    reason = "its checkpoint is damaged: offsets/7 is empty"
    by_person = attempts(
        (30, "PARKED", "a person stopped it; 'resume' starts it again, 'cancel' ends it"), job="j1", name="words"
    )
    found = diagnoses_of(tmp_path, attempts((40, "PARKED", reason)) + by_person)
    assert set(found) == {"job-parked"}
    parked = found["job-parked"]
    assert parked["title"] == f"job clicks ({JOB}) was parked and waits for an operator"
    assert parked["explanation"] == f"The reason is: {reason}."
    assert "holdfast resume clicks" in parked["advice"]


def test_resumed_job_is_reported_with_its_current_phase(tmp_path: Path) -> None:
    text = attempts((40, "PARKED", "records are gone")) + change(4, 90, "PENDING", "a person resumed it")
    assert "It has been PENDING since 2026-03-04 13:01:30." in diagnoses_of(tmp_path, text)["job-parked"]["explanation"]


def test_quarantined_and_failed_jobs_are_diagnosed(tmp_path: Path) -> None:
    text = change(1, 5, "QUARANTINED", "its spec cannot be read", attempt=0, job="j1", name="words")
    text += attempts((10, "BACKOFF", f"{FAILED}; again in 1 s"), (20, "FAILED", f"{FAILED}; 1 restart is used up"))
    found = diagnoses_of(tmp_path, text)
    assert set(found) == {"job-quarantined", "job-failed"}
    assert "its spec cannot be read" in found["job-quarantined"]["explanation"]
    assert "1 restart is used up" in found["job-failed"]["explanation"]
    assert [link["event"].split(":")[0] for link in found["job-failed"]["chain"]] == [
        "attempt 1 ended and the job is restarted",
        "the job failed and is not restarted",
    ]


def test_healthy_cluster_has_no_diagnosis(tmp_path: Path) -> None:
    """Jobs wait, run, lose their node once, are stopped, resumed and finished; leaders come and go."""
    text = change(1, 0, "PENDING", "no node has room for it", attempt=0)
    text += attempts(
        (60, "PENDING", "its lease was lost"), (600, "PARKED", "a person stopped it"), (900, "FINISHED", "it is done")
    )
    text += node(0, "connected", session="0x1000041c2fb0001") + node(1, "leading", epoch=1)
    text += node(900, "leadership lost", epoch=1, reason="this node stops")
    assert diagnoses_of(tmp_path, text) == {}


def test_lost_leadership_is_traced_to_the_expired_session(tmp_path: Path) -> None:
    text = node(0, "leading", epoch=1)
    text += node(10, "problem", problem="ZooKeeper is not reachable; still trying (Connection refused)")
    text += node(20, "leadership lost", epoch=1, reason="the session expired")
    text += node(20.1, "session ended", reason="the session expired")
    found = diagnoses_of(tmp_path, text)
    assert set(found) == {"zk-session-expired"}
    assert found["zk-session-expired"]["title"] == "ZooKeeper ended a session of node n1"
    assert found["zk-session-expired"]["chain"][0]["event"].startswith("a node cannot reach ZooKeeper")


def test_moved_leadership_is_reported_with_its_reason_if_known(tmp_path: Path) -> None:
    """An expired session and a killed agent are reasons; a graceful stop of the node is no diagnosis."""
    led = node(0, "leading", epoch=1) + node(40, "leading", id="n2", epoch=2)
    expired = node(55, "leadership lost", epoch=1, reason="the ZooKeeper session expired")
    moved = diagnoses_of(tmp_path, led + expired)["leadership-moved"]
    assert moved["title"] == "node n1 lost leadership, and node n2 became leader (epoch 2)"
    assert moved["explanation"].startswith("node n1: the ZooKeeper session expired (2026-03-04 13:00:55).")

    agents = node(-1, "agent started") + node(-1, "agent started", id="n2") + node(41, "agent started")
    killed = diagnoses_of(tmp_path, agents + led)["leadership-moved"]
    assert killed["explanation"].startswith("node n1: its agent ended and was restarted (2026-03-04 13:00:41).")

    assert "The logs do not show why node n1 stopped leading" in diagnoses_of(tmp_path, led)["leadership-moved"]["explanation"]
    assert diagnoses_of(tmp_path, led + node(39, "leadership lost", epoch=1, reason="this node stops")) == {}


def test_each_job_is_a_component(tmp_path: Path) -> None:
    file = tmp_path / "events of the cluster"
    file.write_text(attempts((10, "FINISHED", "done")) + node(1, "leading", epoch=1))
    assert [one["name"] for one in explain_logs(file).as_json()["components"]] == ["job clicks", "node n1"]
