"""What goes wrong outside of Holdfast: each costs one clear sentence, and nobody else anything."""

import secrets
import socket
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from holdfast.zk.embedded import Ensemble, Settings
from tests.harness.cluster.command import holdfast, refusal
from tests.harness.cluster.nodes import FAST, configuration, node
from tests.harness.waiting import eventually

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("text", "says"),
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
        ("[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\n[zookeeper]\nuser = 'ann'", "belong together"),
        (
            "[cluster]\nconnect = 'h'\n[node]\ndir = 'd'\n[zookeeper]\npassword_file = '/nowhere'",
            "cannot read zookeeper.password_file",
        ),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(text)
    assert says in refusal(holdfast("node", "--config", str(file)))


def test_a_configuration_that_is_missing_is_named(tmp_path: Path) -> None:
    assert "cannot read the configuration" in refusal(holdfast("node", "--config", str(tmp_path / "none.toml")))


def test_wrong_usage_is_exit_code_2() -> None:
    for arguments in (["up", "--nodes", "0"], ["up", "--zookeepers", "9"], ["clutser"], ["cluster", "--nope"]):
        answer = holdfast(*arguments)
        assert answer.returncode == 2, arguments
        assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("command", [["up"], ["up", "--detach"]])
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    said = refusal(holdfast(*command, "--dir", str(tmp_path / "file" / "c")))
    assert "cannot use the directory" in said
    assert str(tmp_path / "file" / "c") in said


def test_a_node_whose_directory_cannot_be_written_says_so(tmp_path: Path, connect: str) -> None:
    (tmp_path / "file").write_text("in the way")
    settings = {"node": {"dir": str(tmp_path / "file" / "n")}, **FAST}
    file = configuration(tmp_path, connect, cluster="c", node="n", settings=settings)
    assert "cannot use the directory" in refusal(holdfast("node", "--config", str(file)))


def test_an_ensemble_of_two_is_refused(tmp_path: Path) -> None:
    assert "1, 3 or 5" in refusal(holdfast("up", "--dir", str(tmp_path), "--zookeepers", "2"))


@pytest.mark.parametrize("command", [["cluster"], ["down"]])
def test_a_directory_without_a_cluster_is_refused(tmp_path: Path, command: list[str]) -> None:
    assert "there is no cluster in" in refusal(holdfast(*command, "--dir", str(tmp_path)))


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
def test_a_damaged_cluster_file_is_refused(tmp_path: Path, command: str, data: bytes) -> None:
    (tmp_path / "cluster.json").write_bytes(data)
    assert "cluster.json" in refusal(holdfast(command, "--dir", str(tmp_path)))


@pytest.mark.parametrize("options", [["--cluster", ".."], ["--cluster", "a/b"]])
def test_a_cluster_with_an_odd_name_is_refused(connect: str, options: list[str]) -> None:
    assert "cannot be the name of a cluster" in refusal(holdfast("cluster", "--connect", connect, *options))


def test_a_path_with_dots_is_refused(connect: str) -> None:
    assert "dots" in refusal(holdfast("cluster", "--connect", f"{connect}/a/../b"))


def test_a_zookeeper_that_is_away_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        answer = holdfast("cluster", "--connect", f"127.0.0.1:{nobody.getsockname()[1]}")
    assert "does not answer" in refusal(answer)
    assert "unreachable" in answer.stdout


def test_a_cluster_that_nobody_has_founded_is_one_sentence(connect: str, cluster: str) -> None:
    assert "no node has ever joined" in refusal(holdfast("cluster", "--connect", connect, "--cluster", cluster))


def test_a_port_in_use_ends_the_node_with_a_sentence(tmp_path: Path, connect: str, cluster: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings = {"node": {"api": f"127.0.0.1:{other.getsockname()[1]}"}, **FAST}
        with node(tmp_path, connect, cluster=cluster, settings=settings) as n:
            assert n.process.wait(30) == 78
            assert "cannot serve on 127.0.0.1" in n.problems()
            assert "in use" in n.problems()


def test_two_nodes_in_one_directory_are_refused(tmp_path: Path, connect: str, cluster: str) -> None:
    with node(tmp_path, connect, cluster=cluster) as first:
        eventually(first.leading, 30, "the first leads")
        with node(tmp_path, connect, cluster=cluster) as second:
            assert second.process.wait(30) == 78
            assert "another guard (pid" in second.problems()
        assert first.process.poll() is None


def test_two_nodes_with_one_id_are_told_apart(tmp_path: Path, connect: str, cluster: str) -> None:
    with node(tmp_path / "a", connect, cluster=cluster) as first:
        eventually(first.leading, 30, "the first leads")
        with node(tmp_path / "b", connect, cluster=cluster) as second:
            eventually(lambda: "two nodes have the same id" in second.problems(), 30, "the second says so")
            assert not second.leading()
        assert first.leading()


def test_a_node_without_zookeeper_keeps_trying_says_so_and_joins_when_it_comes(tmp_path: Path, cluster: str) -> None:
    ensemble = Ensemble(tmp_path / "zk", size=1, settings=Settings(tick_ms=200))
    with node(tmp_path / "n", ensemble.connect, cluster=cluster) as n:
        eventually(lambda: "not reachable; still trying" in n.problems(), 30, "it says so")
        agent = n.agent_pid()
        try:
            ensemble.start()
            eventually(n.leading, 60, "it leads")
            assert n.agent_pid() == agent, "without being restarted"
            assert n.status()["problem"] == ""
        finally:
            ensemble.stop()


def test_a_session_timeout_that_the_server_cuts_down_is_refused(tmp_path: Path, connect: str, cluster: str) -> None:
    """The server grants 20 ticks of 200 ms at most. What was asked for would be safe; what was granted is not."""
    settings = {"zookeeper": {"session_timeout_s": 15.0, "tick_s": 2.0}, "timing": {"margin_s": 5.0}}
    with node(tmp_path, connect, cluster=cluster, settings=settings) as n:
        assert n.process.wait(30) == 78
        assert "the session timeout of 4 s must be more than syncLimit × tick" in n.problems()


def test_a_wrong_password_ends_the_node_with_a_sentence(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    right = {"zookeeper": {**FAST["zookeeper"], "user": "ann", "password": "right"}, "timing": FAST["timing"]}
    wrong = {"zookeeper": {**FAST["zookeeper"], "user": "ann", "password": "wrong"}, "timing": FAST["timing"]}
    with node(tmp_path / "a", connect, cluster=cluster, settings=right) as first:
        eventually(first.leading, 30, "the first leads")
        with node(tmp_path / "b", connect, cluster=cluster, settings=wrong, id="n2") as second:
            assert second.process.wait(30) == 78
            assert "wrong or missing user or password" in second.problems()
        operator.add_auth("digest", "ann:right")
        for path in _everything(operator, f"/holdfast/{cluster}"):
            assert operator.get_acls(path)[0] == [make_digest_acl("ann", "right", all=True)], path
        assert "wrong or missing" in refusal(holdfast("cluster", "--connect", connect, "--cluster", cluster))


def _everything(client: KazooClient, path: str) -> list[str]:
    found = [path]
    for child in client.get_children(path):
        found += _everything(client, f"{path}/{child}")
    return found
