"""Commands while ZooKeeper is unreachable, or becomes unreachable: they fail soon, with one sentence."""

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
from tests.harness.command_line import error_message, run_command, start_command, wait_for_stderr
from tests.harness.prepared_cluster import PreparedCluster
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.waiting import wait_until

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
"""Four seconds, and a reserve for a busy machine. An outage during a command is tolerated for a minute or longer."""


@pytest.fixture
def proxy(cluster: PreparedCluster) -> Iterator[TcpProxy]:
    with TcpProxy(cluster.port) as proxy:
        yield proxy


def through(cluster: PreparedCluster, proxy: TcpProxy) -> PreparedCluster:
    return PreparedCluster(proxy.port, cluster.root, cluster.storage)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_unreachable_zookeeper_is_one_sentence(command: list[str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        answer = holdfast(*command, "--connect", f"127.0.0.1:{nobody.getsockname()[1]}", timeout_s=SOON_S)
    assert "does not answer" in error_message(answer)
    assert answer.stdout == ""


@pytest.mark.slow
def test_silent_zookeeper_is_one_sentence() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        answer = holdfast("ls", "--connect", f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=SOON_S)
    assert "does not answer" in error_message(answer)


@pytest.mark.real
def test_zookeeper_that_stops_answering_is_one_sentence(cluster: PreparedCluster, proxy: TcpProxy) -> None:
    cluster.submit("j1")
    proxy.drops_replies_except_pings = True
    for command in (["ls"], ["show", "j1"]):
        error_message(run_command(through(cluster, proxy), *command))


@pytest.mark.real
@pytest.mark.parametrize("command", [["ls"], ["show", "j1"], ["stop", "j1"], ["cancel", "j1"], ["submit", __file__]])
def test_unstable_connections_are_retried_or_end_with_one_sentence(
    cluster: PreparedCluster, proxy: TcpProxy, command: list[str]
) -> None:
    cluster.submit("j1")
    with start_command(through(cluster, proxy), *command) as process:
        while process.poll() is None:
            proxy.drop_connections()
            time.sleep(0.03)
        _, stderr = process.communicate(timeout=60)
    done = subprocess.CompletedProcess(process.args, process.returncode, "", stderr)
    assert "Traceback" not in stderr
    if done.returncode != 0:
        error_message(done)


@pytest.mark.real
def test_wait_survives_an_outage(cluster: PreparedCluster, proxy: TcpProxy) -> None:
    cluster.submit("j1")
    with start_command(through(cluster, proxy), "stop", "j1", "--wait") as process:
        wait_for_stderr(process, "PENDING")
        proxy.refuses_connections = True
        proxy.drop_connections()
        wait_for_stderr(process, "still waiting")
        cluster.write_state("j1", Phase.PARKED, "a user stopped the job")
        proxy.refuses_connections = False
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert re.search("PARKED +a user stopped the job", stderr)


@pytest.mark.real
def test_lost_reply_to_a_submission_is_resolved(cluster: PreparedCluster, proxy: TcpProxy, tmp_path: Path) -> None:
    """The transaction is committed and its reply is lost. The same request id finds the job."""
    script = tmp_path / "words.py"
    script.write_text("pass\n")
    with start_command(through(cluster, proxy), "submit", str(script), "--request-id", "r1") as process:
        wait_until(lambda: process.poll() is not None or cluster.get(cluster.paths.name("words")) is not None, 60, "a job")
        proxy.drop_connections()
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    (job,) = cluster.run(lambda client: client.children(cluster.paths.jobs))
    assert stdout.split()[0] == job
    assert cluster.get(cluster.paths.job(JobId(job), "spec")) is not None
