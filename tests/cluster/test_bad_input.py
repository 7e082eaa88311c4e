"""What goes wrong outside of Holdfast: each costs one clear sentence, and nobody else anything."""

import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from holdfast.zk.embedded import Ensemble, Server, Settings
from tests.cluster.nodes import FAST, configuration, node
from tests.cluster.up import holdfast
from tests.waiting import eventually

pytestmark = pytest.mark.real


@pytest.fixture
def cluster() -> str:
    return f"c{secrets.token_hex(4)}"


@pytest.fixture
def connect(server: Server) -> str:
    return f"127.0.0.1:{server.client_port}"


@pytest.fixture
def operator(connect: str) -> Iterator[KazooClient]:
    """Somebody with access to ZooKeeper and no respect for it."""
    client = KazooClient(connect)
    client.start(20)
    yield client
    client.stop()
    client.close()


def refusal(answer: "object") -> str:
    """The one sentence, after checking that it is one and that the exit code fits."""
    assert answer.returncode == 1, answer  # type: ignore[attr-defined]
    said: str = answer.stderr.strip()  # type: ignore[attr-defined]
    assert said.startswith("holdfast: ")
    assert len(said.splitlines()) == 1
    return said


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
            assert "another agent (pid" in second.problems()
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


GARBAGE = [
    b"",
    b"\x00\xff\xfe noise",
    b"{}",
    b"[1]",
    b'{"schema": true}',
    b'{"schema": 1, "leader": 7}',
    b"9" * 5000,
    b"[" * 50000,
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_in_the_epoch_costs_one_reign_and_heals(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, garbage: bytes
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
        path = f"/holdfast/{cluster}/epoch"
        operator.set(path, garbage)
        eventually(lambda: n.leading() and n.status()["epoch"] == 3, 30, "it leads again, two epochs later")
        assert b'"leader":"n1"' in operator.get(path)[0]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_in_the_beat_is_said_and_written_over(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, garbage: bytes
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
        path = f"/holdfast/{cluster}/beat"
        operator.set(path, garbage)
        eventually(lambda: b'"leader":"n1"' in operator.get(path)[0], 30, "the next beat writes over it")
        eventually(lambda: n.leading() and n.status()["problem"] == "", 30, "all is well")
        assert n.status()["epoch"] == 1


def test_garbage_in_a_node_is_left_out_and_said(tmp_path: Path, connect: str, cluster: str, operator: KazooClient) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
        operator.create(f"/holdfast/{cluster}/nodes/ghost", b"\x00boo")
        answer = holdfast("cluster", "--json", "--connect", connect, "--cluster", cluster)
        assert answer.returncode == 0
        assert f"/holdfast/{cluster}/nodes/ghost holds" in answer.stderr
        assert '"id": "n1"' in answer.stdout
        assert "ghost" not in answer.stdout


def test_what_nodes_call_themselves_is_shown_as_it_is(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
        record = b'{"schema":1,"slots":1,"address":"http://[fe80::1]:7[/bold]","version":"[/]","newest_schema":1}'
        operator.create(f"/holdfast/{cluster}/nodes/odd", record)
        operator.create(f"/holdfast/{cluster}/nodes/half", record.replace(b"[/]", rb"\ud800"))
        answer = holdfast("cluster", "--connect", connect, "--cluster", cluster)
        assert answer.returncode == 0
        assert "http://[fe80::1]:7[/bold]" in answer.stdout
        assert "nodes/half holds" in answer.stderr


def test_a_leader_whose_contender_is_no_contender_is_none(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
    for contender in (".", "../../..", "c-/x-0000000001"):
        operator.set(f"/holdfast/{cluster}/epoch", b'{"schema":1,"leader":"n1","contender":"%s"}' % contender.encode())
        answer = holdfast("cluster", "--json", "--connect", connect, "--cluster", cluster)
        assert answer.returncode == 0
        assert '"leader": null' in answer.stdout


def test_clusters_of_different_users_live_beside_each_other(tmp_path: Path, connect: str, cluster: str) -> None:
    """Whoever comes first makes the folder above them, and must not keep the others out."""
    users = [
        {"zookeeper": {**FAST["zookeeper"], "user": user, "password": "x"}, "timing": FAST["timing"]} for user in ("ann", "bob")
    ]
    prefix = f"{connect}/{cluster}"
    with (
        node(tmp_path / "a", prefix, cluster="one", settings=users[0]) as first,
        node(tmp_path / "b", prefix, cluster="two", settings=users[1]) as second,
        node(tmp_path / "c", prefix, cluster="three") as third,
    ):
        for each in (first, second, third):
            eventually(each.leading, 30, "each leads its own cluster")


def test_a_node_whose_name_is_taken_by_a_lasting_znode_says_what_to_delete(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    operator.create(f"/holdfast/{cluster}/nodes/n1", b"", makepath=True)
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(lambda: f"/holdfast/{cluster}/nodes/n1 was not made by a node" in n.problems(), 30, "it says so")
        operator.delete(f"/holdfast/{cluster}/nodes/n1")
        eventually(n.leading, 30, "then it leads")


def test_a_contender_that_belongs_to_no_session_does_not_block_the_election(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    operator.create(f"/holdfast/{cluster}/election/c-forged-0000000000", b"", makepath=True)
    operator.create(f"/holdfast/{cluster}/election/what is this", b"")
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
        assert "c-forged-0000000000 belongs to no session" in n.problems()


@pytest.mark.parametrize("where", ["epoch", "beat"])
def test_a_record_of_a_later_holdfast_is_not_garbage_and_this_node_does_not_lead(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, where: str
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
        later = b'{"schema": 2, "leader": {"id": "n9"}}'
        eventually(lambda: _stays(operator, f"/holdfast/{cluster}/{where}", later), 30, "the later record stays")
        eventually(lambda: "written by a later Holdfast (schema 2" in n.problems(), 30, "it says so")
        eventually(lambda: not n.leading(), 30, "it stepped down")
        eventually(lambda: not operator.get_children(f"/holdfast/{cluster}/election"), 30, "and left the queue to others")
        assert operator.get(f"/holdfast/{cluster}/{where}")[0] == later, "nothing is written over it"


def _stays(operator: KazooClient, path: str, data: bytes) -> bool:
    """A beat that was on its way may still land on top: then it is written once more."""
    if operator.get(path)[0] != data:
        operator.set(path, data)
        return False
    return True


def test_an_operator_who_deletes_the_contender_only_costs_a_reign(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
        path = f"/holdfast/{cluster}/election"
        operator.delete(f"{path}/{operator.get_children(path)[0]}")
        eventually(lambda: n.leading() and n.status()["epoch"] == 2, 30, "it leads again")


def _lose_everything(operator: KazooClient, root: str) -> None:
    operator.delete(root, recursive=True)


def _lose_the_last_beats(operator: KazooClient, root: str) -> None:
    operator.delete(f"{root}/beat")
    operator.create(f"{root}/beat", b"")


def _become_another(operator: KazooClient, root: str) -> None:
    operator.delete(f"{root}/epoch")
    operator.create(f"{root}/epoch", b"")


@pytest.mark.parametrize(
    ("lose", "says"),
    [(_lose_everything, "came back empty"), (_lose_the_last_beats, "came back older"), (_become_another, "another cluster")],
)
def test_a_zookeeper_that_lost_data_is_not_trusted_until_a_person_accepts_it(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, lose: Callable[[KazooClient, str], None], says: str
) -> None:
    root = f"/holdfast/{cluster}"
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(n.leading, 30, "it leads")
        eventually(lambda: operator.get(f"{root}/beat")[1].version >= 5, 30, "some beats were written down")
    lose(operator, root)
    with node(tmp_path, connect, cluster=cluster) as n:
        eventually(lambda: says in n.problems() and "--accept-zookeeper" in n.problems(), 30, "it says so")
        assert not n.leading()
        assert not operator.exists(f"{root}/nodes/n1")
    with node(tmp_path, connect, cluster=cluster, options=("--accept-zookeeper",)) as n:
        eventually(n.leading, 30, "accepted")
