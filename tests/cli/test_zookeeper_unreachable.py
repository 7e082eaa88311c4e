"""ZooKeeper is away, or goes away: one sentence, and soon."""

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.identifiers import JobId
from holdfast.model.phase import Phase
from tests.harness.cluster.command import holdfast
from tests.harness.command_line import refusal, run, started, told
from tests.harness.prepared_cluster import LaidOut
from tests.harness.tcp_proxy import Proxy
from tests.harness.waiting import eventually

COMMANDS = [
    ["ls"],
    ["show", "j1"],
    ["events"],
    ["logs", "j1"],
    ["logs", "-f", "j1"],
    ["stop", "j1"],
    ["cancel", "j1"],
    ["restart", "j1"],
    ["resume", "j1"],
    ["quarantine"],
    ["quarantine", "show", "j1"],
    ["quarantine", "release", "j1"],
    ["quarantine", "discard", "j1", "--yes"],
    ["submit", __file__],
]
SOON_S = 40.0
"""Four seconds, and what a busy machine adds. An outage in the middle is waited out for a minute and longer."""


@pytest.fixture
def proxy(cluster: LaidOut) -> Iterator[Proxy]:
    with Proxy(cluster.port) as proxy:
        yield proxy


def through(cluster: LaidOut, proxy: Proxy) -> LaidOut:
    return LaidOut(proxy.port, cluster.root, cluster.storage)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_zookeeper_that_is_away_is_one_sentence(command: list[str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        answer = holdfast(*command, "--connect", f"127.0.0.1:{nobody.getsockname()[1]}", timeout_s=SOON_S)
    assert "does not answer" in refusal(answer)
    assert answer.stdout == ""


def test_a_zookeeper_that_accepts_and_says_nothing_is_one_sentence() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        answer = holdfast("ls", "--connect", f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=SOON_S)
    assert "does not answer" in refusal(answer)


@pytest.mark.real
def test_a_zookeeper_that_stops_answering_in_the_middle_is_one_sentence(cluster: LaidOut, proxy: Proxy) -> None:
    cluster.submit("j1")
    proxy.only_pings_answered = True
    for command in (["ls"], ["show", "j1"]):
        refusal(run(through(cluster, proxy), *command))


@pytest.mark.real
@pytest.mark.parametrize("command", [["ls"], ["show", "j1"], ["stop", "j1"], ["cancel", "j1"], ["submit", __file__]])
def test_connections_that_break_all_the_time_end_in_a_sentence_or_are_bridged(
    cluster: LaidOut, proxy: Proxy, command: list[str]
) -> None:
    cluster.submit("j1")
    with started(through(cluster, proxy), *command) as process:
        while process.poll() is None:
            proxy.cut()
            time.sleep(0.03)
        _, stderr = process.communicate(timeout=60)
    done = subprocess.CompletedProcess(process.args, process.returncode, "", stderr)
    assert "Traceback" not in stderr
    if done.returncode != 0:
        refusal(done)


@pytest.mark.real
def test_waiting_survives_an_outage(cluster: LaidOut, proxy: Proxy) -> None:
    cluster.submit("j1")
    with started(through(cluster, proxy), "stop", "j1", "--wait") as process:
        told(process, "PENDING")
        proxy.refusing = True
        proxy.cut()
        told(process, "still waiting")
        cluster.settle("j1", Phase.PARKED, "a person stopped it")
        proxy.refusing = False
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert re.search("PARKED +a person stopped it", stderr)


@pytest.mark.real
def test_a_reply_to_a_submission_that_is_lost_is_found_out(cluster: LaidOut, proxy: Proxy, tmp_path: Path) -> None:
    """The transaction arrives, its reply does not: the same request finds the job that it made."""
    script = tmp_path / "words.py"
    script.write_text("pass\n")
    with started(through(cluster, proxy), "submit", str(script), "--request-id", "r1") as process:
        eventually(lambda: process.poll() is not None or cluster.get(cluster.paths.name("words")) is not None, 60, "a job")
        proxy.cut()
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    (job,) = cluster.run(lambda client: client.children(cluster.paths.jobs))
    assert stdout.split()[0] == job
    assert cluster.get(cluster.paths.job(JobId(job), "spec")) is not None
