"""Invalid configuration, arguments and surroundings: each causes one clear error message and no other damage."""

import secrets
import socket
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings
from tests.harness.cluster.command import error_message, holdfast
from tests.harness.cluster.nodes import FAST_TIMING, start_node, write_config
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[cluster", "is not valid TOML"),
        ("cluster = 1", "outside a table"),
        ("[node]\ndir = 'd'", "'cluster.connect' is missing"),
        ("[cluster]\nconnect = 'h'", "'node.dir' is missing"),
        ("[cluster]\nconnect = 'h:x'\n[node]\ndir = 'd'", "is not a ZooKeeper address"),
        ("[cluster]\nconnect = 'h'\nhost = 'h'", "unknown setting 'cluster.host'"),
        ("[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\nslots = 'many'", "'node.slots' must be a int, not 'many'"),
        ("[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\nslots = -1", "'node.slots' must be more than 0"),
        ("[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\nid = 'a/b'", "cannot be used as node.id"),
        ("[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\napi = '7000'", "'node.api' must be HOST:PORT"),
        ("[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\n[timing]\nmargin_s = 1", "margin 1 s must be more than"),
        ("[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\n[zookeeper]\nsession_timeout_s = 9", "syncLimit × tick"),
        ("[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\n[zookeeper]\nuser = 'ann'", "must both be set"),
        (
            "[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\n[zookeeper]\npassword_file = '/nowhere'",
            "cannot read zookeeper.password_file",
        ),
    ],
)
def test_invalid_configuration_is_refused_with_one_message(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(text)
    assert expected in error_message(holdfast("node", "--config", str(file)))


def test_missing_configuration_file_is_reported(tmp_path: Path) -> None:
    assert "cannot read the configuration" in error_message(holdfast("node", "--config", str(tmp_path / "none.toml")))


def test_wrong_usage_exits_with_code_2() -> None:
    for arguments in (["up", "--nodes", "0"], ["up", "--zookeepers", "9"], ["clutser"], ["cluster", "--nope"]):
        answer = holdfast(*arguments)
        assert answer.returncode == 2, arguments
        assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("command", [["up"], ["up", "--detach"]])
def test_unwritable_directory_is_reported(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    message = error_message(holdfast(*command, "--dir", str(tmp_path / "file" / "c")))
    assert "Not a directory" in message
    assert str(tmp_path / "file" / "c") in message


def test_node_reports_an_unwritable_directory(tmp_path: Path, connect: str) -> None:
    (tmp_path / "file").write_text("in the way")
    settings = {"node": {"dir": str(tmp_path / "file" / "node")}, **FAST_TIMING}
    file = write_config(tmp_path, connect, cluster="c", node="node", settings=settings)
    assert "cannot use the directory" in error_message(holdfast("node", "--config", str(file)))


def test_ensemble_of_two_servers_is_refused(tmp_path: Path) -> None:
    assert "1, 3 or 5" in error_message(holdfast("up", "--dir", str(tmp_path), "--zookeepers", "2"))


@pytest.mark.parametrize("command", [["cluster"], ["down"]])
def test_directory_without_a_cluster_is_refused(tmp_path: Path, command: list[str]) -> None:
    assert "there is no cluster in" in error_message(holdfast(*command, "--dir", str(tmp_path)))


DAMAGED = [
    secrets.token_bytes(64),
    b"[]",
    b"[" * 100_000,
    b'{"connect": "h:1"}',
    b'{"connect": "h:1", "cluster": "default", "ready": true, "zookeepers": [], "supervisor": {"pid": 1, "started": 1}}',
    b'{"connect": "h:1", "cluster": "..", "ready": true, "zookeepers": [{"id": 1}], "supervisor": {"pid": 1, "started": 1}}',
    b'{"connect": "h:1", "cluster": "default", "ready": true, "zookeepers": [{"id": 1}], "supervisor": {"pid": "x"}}',
    b'{"connect": "h:1", "cluster": "default", "ready": true, "zookeepers": [{"id": 1}], "supervisor": []}',
]


@pytest.mark.parametrize("command", ["cluster", "down"])
@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_cluster_file_is_refused(tmp_path: Path, command: str, data: bytes) -> None:
    (tmp_path / "cluster.json").write_bytes(data)
    assert "cluster.json" in error_message(holdfast(command, "--dir", str(tmp_path)))


@pytest.mark.parametrize("options", [["--cluster", ".."], ["--cluster", "a/b"]])
def test_invalid_cluster_name_is_refused(connect: str, options: list[str]) -> None:
    assert "cannot be the name of a cluster" in error_message(holdfast("cluster", "--connect", connect, *options))


def test_chroot_with_dots_is_refused(connect: str) -> None:
    assert "a part of its path is empty, '.' or '..'" in error_message(holdfast("cluster", "--connect", f"{connect}/a/../b"))


def test_unreachable_zookeeper_is_reported(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        answer = holdfast("cluster", "--connect", f"127.0.0.1:{unused.getsockname()[1]}")
    assert "does not answer" in error_message(answer)
    assert "unreachable" in answer.stdout


def test_cluster_without_nodes_is_reported(connect: str, cluster: str) -> None:
    assert "no node has ever joined" in error_message(holdfast("cluster", "--connect", connect, "--cluster", cluster))


def test_node_exits_when_its_port_is_in_use(tmp_path: Path, connect: str, cluster: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings = {"node": {"api": f"127.0.0.1:{other.getsockname()[1]}"}, **FAST_TIMING}
        with start_node(tmp_path, connect, cluster=cluster, settings=settings) as node:
            assert node.process.wait(30) == 78
            assert "cannot serve on 127.0.0.1" in node.problems()
            assert "in use" in node.problems()


def test_second_node_in_the_same_directory_is_refused(tmp_path: Path, connect: str, cluster: str) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as first:
        wait_until(first.is_leading, 30, "the first node leads")
        with start_node(tmp_path, connect, cluster=cluster) as second:
            assert second.process.wait(30) == 78
            assert "another guard (pid" in second.problems()
        assert first.process.poll() is None


def test_second_node_with_the_same_id_does_not_join(tmp_path: Path, connect: str, cluster: str) -> None:
    with start_node(tmp_path / "a", connect, cluster=cluster) as first:
        wait_until(first.is_leading, 30, "the first node leads")
        with start_node(tmp_path / "b", connect, cluster=cluster) as second:
            wait_until(lambda: "two nodes use the same node.id" in second.problems(), 30, "the second node reports the problem")
            assert not second.is_leading()
        assert first.is_leading()


def test_node_joins_as_soon_as_zookeeper_is_reachable(tmp_path: Path, cluster: str) -> None:
    ensemble = EmbeddedEnsemble(tmp_path / "zk", size=1, settings=ServerSettings(tick_ms=200))
    with start_node(tmp_path / "node", ensemble.connect_string, cluster=cluster) as node:
        wait_until(lambda: "not reachable; still trying" in node.problems(), 30, "the node reports the problem")
        agent = node.agent_pid()
        try:
            ensemble.start()
            wait_until(node.is_leading, 60, "the node leads")
            assert node.agent_pid() == agent, "the agent was not restarted"
            assert node.status()["problem"] == ""
        finally:
            ensemble.stop()


def test_session_timeout_reduced_by_the_server_is_refused(tmp_path: Path, connect: str, cluster: str) -> None:
    """The server grants at most 20 ticks of 200 ms. The requested timeout would be safe, the granted one is not."""
    settings = {"zookeeper": {"session_timeout_s": 15.0, "tick_s": 2.0}, "timing": {"margin_s": 5.0}}
    with start_node(tmp_path, connect, cluster=cluster, settings=settings) as node:
        assert node.process.wait(30) == 78
        assert "the session timeout of 4 s must be more than syncLimit × tick" in node.problems()


def test_node_exits_on_a_wrong_password(tmp_path: Path, connect: str, cluster: str, operator: KazooClient) -> None:
    right = {"zookeeper": {**FAST_TIMING["zookeeper"], "user": "ann", "password": "right"}, "timing": FAST_TIMING["timing"]}
    wrong = {"zookeeper": {**FAST_TIMING["zookeeper"], "user": "ann", "password": "wrong"}, "timing": FAST_TIMING["timing"]}
    with start_node(tmp_path / "a", connect, cluster=cluster, settings=right) as first:
        wait_until(first.is_leading, 30, "the first node leads")
        with start_node(tmp_path / "b", connect, cluster=cluster, settings=wrong, id="n2") as second:
            assert second.process.wait(30) == 78
            assert "the user or password is wrong or missing" in second.problems()
        operator.add_auth("digest", "ann:right")
        for path in _list_znodes(operator, f"/holdfast/{cluster}"):
            assert operator.get_acls(path)[0] == [make_digest_acl("ann", "right", all=True)], path
        assert "wrong or missing" in error_message(holdfast("cluster", "--connect", connect, "--cluster", cluster))


def _list_znodes(client: KazooClient, path: str) -> list[str]:
    paths = [path]
    for child in client.get_children(path):
        paths += _list_znodes(client, f"{path}/{child}")
    return paths
