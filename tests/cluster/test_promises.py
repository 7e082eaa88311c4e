"""Failsafe promises of real nodes: restarts of the agent while ZooKeeper is away, and strangers on the HTTP API."""

import json
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from holdfast.zk.embedded import ZooKeeperServer
from tests.harness.cluster.nodes import Node, start_node
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.real


def request_promise(node: Node, secret: str) -> int:
    """Return the status of the answer, or 0 without an answer."""
    body = json.dumps({"job": "j1", "attempt": 1, "period_s": 5}).encode()
    try:
        address = json.loads((node.directory / "agent.json").read_text())["api"]
        request = urllib.request.Request(f"{address}/v1/promises", data=body, headers={"Authorization": f"Bearer {secret}"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except (OSError, ValueError):
        return 0


def kill_agent(node: Node) -> None:
    """Kill the agent and wait until the guard has started another one that answers."""
    agent = node.agent_pid()
    assert agent is not None
    os.kill(agent, signal.SIGKILL)

    def is_replaced() -> bool:
        fields: dict[str, Any] = node._read("agent.json")
        return fields.get("pid") not in (agent, None) and node.status() != {}

    wait_until(is_replaced, 30, "another agent answers")


def test_agent_restarted_without_zookeeper_still_promises(
    tmp_path: Path, server: ZooKeeperServer, cluster: str, operator: KazooClient
) -> None:
    with TcpProxy(server.client_port) as proxy, start_node(tmp_path, f"127.0.0.1:{proxy.port}", cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        secret = operator.get(f"/holdfast/{cluster}/secret")[0].decode()
        assert request_promise(node, secret) == 200
        proxy.refuses_connections = True
        proxy.drop_connections()
        kill_agent(node)
        assert request_promise(node, secret) == 200
        assert request_promise(node, "another") == 401


def test_files_with_secrets_are_readable_by_their_owner_only(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    directory = tmp_path / "node"
    directory.mkdir(mode=0o755)
    with start_node(directory, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        secret = operator.get(f"/holdfast/{cluster}/secret")[0]
        assert directory.stat().st_mode & 0o777 == 0o700
        holders = [path for path in directory.rglob("*") if path.is_file() and secret in path.read_bytes()]
        assert [path.name for path in holders] == ["cluster-secret"]
        for path in (*holders, directory / "session.json"):
            assert path.stat().st_mode & 0o777 == 0o600, path


def test_agent_keeps_the_port_that_the_system_selected(tmp_path: Path, connect: str, cluster: str) -> None:
    """Without ZooKeeper, the other nodes cannot learn another address, and their drivers would end."""
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        before = json.loads((tmp_path / "agent.json").read_text())["api"]
        kill_agent(node)
        assert json.loads((tmp_path / "agent.json").read_text())["api"] == before
        agent = node.agent_pid()
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = other.getsockname()[1]
            (tmp_path / "agent.json").write_text(json.dumps({"pid": agent, "api": f"http://127.0.0.1:{taken}"}))
            kill_agent(node)
            assert json.loads((tmp_path / "agent.json").read_text())["api"] != f"http://127.0.0.1:{taken}", "it is in use"
