"""Copies of a cluster's logs: their names and contents, and notes about logs that cannot be read."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.connection.target import Target
from holdfast.client.logs.cluster_logs import EVENTS, copy_cluster
from holdfast.client.logs.log_copies import LogCopies
from holdfast.errors import Refused, Unavailable
from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Event, JobState
from holdfast.model.phase import Phase
from holdfast.node.event_log import EventLog
from holdfast.zk.session.connection_settings import ConnectionSettings
from tests.harness.node_stub import AttemptFiles, serve_logs
from tests.harness.prepared_cluster import SECRET, PreparedCluster

pytestmark = pytest.mark.real

NOBODY = ConnectionSettings((("127.0.0.1", 1),))


def target(cluster: PreparedCluster, *, ensemble: ConnectionSettings | None = None, directory: Path | None = None) -> Target:
    here = ConnectionSettings((("127.0.0.1", cluster.port),), cluster.root, session_timeout_s=4)
    return Target(ensemble or here, "default", (), directory)


def copy_logs(target: Target, directory: Path) -> tuple[dict[str, str], list[str]]:
    """Return the copies by name, and the notes."""
    directory.mkdir()
    copies = LogCopies(directory, lambda name: None)
    asyncio.run(copy_cluster(target, copies))
    return {copy.name: copy.path.read_text() for copy in copies.files}, copies.notes


def changes(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def event(number: int, phase: Phase, *, attempt: int = 1, node: str | None = None) -> Event:
    wall = time.time() - 1000 + number
    return Event(number, wall, phase, f"change {number}", Attempt(attempt), NodeId(node) if node else None, Epoch(1))


def put(cluster: PreparedCluster, job: str, *events: Event) -> None:
    last = events[-1]
    state = JobState(last.phase, last.reason, last.attempt, last.node, request=f"r-{job}", events=events)
    cluster.put(cluster.paths.job(JobId(job), "state"), encode(state))


def test_events_and_logs_are_copied_from_zookeeper_and_nodes(cluster: PreparedCluster, tmp_path: Path) -> None:
    cluster.submit("j1", name="clicks")
    put(
        cluster,
        "j1",
        event(1, Phase.RUNNING, node="n1"),
        event(2, Phase.BACKOFF),
        event(3, Phase.RUNNING, attempt=2, node="n2"),
    )
    first, second = AttemptFiles(tmp_path / "n1"), AttemptFiles(tmp_path / "n2")
    first.write("j1", 1, b"one\n")
    second.write("j1", 2, b"two\n" * 300_000)
    with serve_logs(first, SECRET) as here, serve_logs(second, SECRET) as there:
        cluster.add_node("n1", address=here)
        cluster.add_node("n2", address=there)
        files, notes = copy_logs(target(cluster), tmp_path / "copies")
    assert notes == []
    assert list(files) == [EVENTS, "job clicks, attempt 2", "job clicks, attempt 1"]
    assert files["job clicks, attempt 1"] == "one\n"
    assert files["job clicks, attempt 2"] == "two\n" * 300_000
    reported = [(one["job"], one["name"], one["number"], one["phase"]) for one in changes(files[EVENTS])]
    assert reported == [("j1", "clicks", 1, "RUNNING"), ("j1", "clicks", 2, "BACKOFF"), ("j1", "clicks", 3, "RUNNING")]


def test_missing_nodes_are_asked_once_and_noted(cluster: PreparedCluster, tmp_path: Path) -> None:
    """One node is not registered. Another one is registered and does not answer."""
    for number in range(1, 6):
        cluster.submit(f"j{number}", name=f"job{number}")
        put(cluster, f"j{number}", event(1, Phase.RUNNING, node="gone" if number == 1 else "deaf"))
    cluster.add_node("deaf", address="http://127.0.0.1:1")
    files, notes = copy_logs(target(cluster), tmp_path / "copies")
    assert list(files) == [EVENTS]
    named = [f"job job{number}, attempt 1" for number in (2, 3, 4)]
    assert notes == [
        f"node deaf does not answer; its logs are missing from this analysis ({'; '.join(named)} and 1 more)",
        "node gone does not answer; its logs are missing from this analysis (job job1, attempt 1)",
    ]


def test_jobs_with_equal_names_are_distinguished(cluster: PreparedCluster, tmp_path: Path) -> None:
    attempts = AttemptFiles(tmp_path / "n1")
    for job, phase in (("j1", Phase.CANCELLED), ("j2", Phase.RUNNING)):
        cluster.submit(job, name="clicks")
        put(cluster, job, event(1, Phase.RUNNING, node="n1"), event(2, phase, node="n1"))
        if phase.final:
            cluster.remove(cluster.paths.name("clicks"))
        attempts.write(job, 1, job.encode())
    with serve_logs(attempts, SECRET) as address:
        cluster.add_node("n1", address=address)
        files, _ = copy_logs(target(cluster), tmp_path / "copies")
    assert files["job clicks (j1), attempt 1"] == "j1"
    assert files["job clicks (j2), attempt 1"] == "j2"


def test_copies_respect_the_size_limit(cluster: PreparedCluster, tmp_path: Path) -> None:
    cluster.submit("j1", name="clicks")
    put(cluster, "j1", event(1, Phase.RUNNING, node="n1"))
    attempts = AttemptFiles(tmp_path / "n1")
    attempts.write("j1", 1, b"x" * 5_000_000)
    directory = tmp_path / "copies"
    directory.mkdir()
    copies = LogCopies(directory, lambda name: None, free_bytes=2_000_000)
    with serve_logs(attempts, SECRET) as address:
        cluster.add_node("n1", address=address)
        asyncio.run(copy_cluster(target(cluster), copies))
    assert sum(copy.path.stat().st_size for copy in copies.files) == 2_000_000
    assert copies.notes == ["the end of job clicks, attempt 1 is missing: at most 1 GB of logs are read from a cluster"]


def local_cluster(directory: Path) -> None:
    """Write the files of a local cluster in which two nodes led, one after the other."""
    for node, events in (("n1", (event(1, Phase.RUNNING), event(2, Phase.BACKOFF))), ("n2", (event(3, Phase.RUNNING),))):
        home = directory / "nodes" / node
        home.mkdir(parents=True)
        (home / "node.log").write_text(f"{node} says\n")
        for one in events:
            EventLog(home / "events.jsonl").append(JobId("j1"), one)
    with (directory / "nodes" / "n2" / "events.jsonl").open("a") as log:
        log.write('{"time": "2026')
    server = directory / "zookeeper" / "server-1"
    server.mkdir(parents=True)
    (server / "zookeeper.log").write_text("a server says\n")
    attempts = AttemptFiles(directory / "nodes" / "n1" / "attempts")
    attempts.write("j1", 1, b"new\n")
    attempts.write("j1", 1, b"old\n", number=1)


def test_local_cluster_yields_each_event_once_and_all_local_logs(cluster: PreparedCluster, tmp_path: Path) -> None:
    local_cluster(tmp_path / "c")
    cluster.submit("j1", name="clicks")
    put(cluster, "j1", event(2, Phase.BACKOFF), event(3, Phase.RUNNING), event(4, Phase.FINISHED))
    files, notes = copy_logs(target(cluster, directory=tmp_path / "c"), tmp_path / "copies")
    assert notes == []
    assert list(files) == [
        EVENTS,
        "nodes/n1/node.log",
        "nodes/n2/node.log",
        "zookeeper/server-1/zookeeper.log",
        "job clicks, attempt 1",
    ]
    assert [(one["name"], one["number"]) for one in changes(files[EVENTS])] == [("clicks", number) for number in (1, 2, 3, 4)]
    assert files["job clicks, attempt 1"] == "old\nnew\n"


def test_logs_of_stopped_local_cluster_are_copied(cluster: PreparedCluster, tmp_path: Path) -> None:
    local_cluster(tmp_path / "c")
    files, notes = copy_logs(target(cluster, ensemble=NOBODY, directory=tmp_path / "c"), tmp_path / "copies")
    assert "job j1, attempt 1" in files
    assert len(changes(files[EVENTS])) == 3
    (note,) = notes
    assert note.startswith("the records in ZooKeeper are missing from this analysis: ZooKeeper at 127.0.0.1:1 does not answer")


def test_cluster_without_readable_logs_is_refused(cluster: PreparedCluster, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"ZooKeeper at 127\.0\.0\.1:1 does not answer"):
        copy_logs(target(cluster, ensemble=NOBODY), tmp_path / "a")
    cluster.remove(cluster.paths.secret)
    with pytest.raises(Refused, match="no node has ever joined this cluster"):
        copy_logs(target(cluster), tmp_path / "b")
