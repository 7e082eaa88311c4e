"""Noise, forgeries and losses in ZooKeeper: each costs one clear sentence, and nobody else anything."""

from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness.cluster.command import holdfast
from tests.harness.cluster.nodes import FAST, node
from tests.harness.waiting import eventually

pytestmark = pytest.mark.real

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
