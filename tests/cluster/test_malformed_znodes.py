"""Malformed, forged and lost znodes: each causes one clear message and no other damage."""

from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness.cluster.command import holdfast
from tests.harness.cluster.nodes import FAST_TIMING, start_node
from tests.harness.waiting import wait_until

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
    b'{"schema": 3, "leader": {"id": "n9"}}',
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_malformed_epoch_is_replaced_by_a_new_epoch(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, garbage: bytes
) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        path = f"/holdfast/{cluster}/epoch"
        operator.set(path, garbage)
        wait_until(lambda: node.is_leading() and node.status()["epoch"] == 3, 30, "the node leads again, two epochs later")
        assert b'"leader":"n1"' in operator.get(path)[0]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_malformed_beat_is_overwritten(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, garbage: bytes
) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        path = f"/holdfast/{cluster}/beat"
        operator.set(path, garbage)
        wait_until(lambda: b'"leader":"n1"' in operator.get(path)[0], 30, "the next beat overwrites it")
        wait_until(lambda: node.is_leading() and node.status()["problem"] == "", 30, "the node has no problem")
        assert node.status()["epoch"] == 1


def test_malformed_node_record_is_omitted_and_reported(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        operator.create(f"/holdfast/{cluster}/nodes/ghost", b"\x00boo")
        answer = holdfast("cluster", "--json", "--connect", connect, "--cluster", cluster)
        assert answer.returncode == 0
        assert f"/holdfast/{cluster}/nodes/ghost holds" in answer.stderr
        assert '"id": "n1"' in answer.stdout
        assert "ghost" not in answer.stdout


def test_markup_in_node_records_is_printed_literally(tmp_path: Path, connect: str, cluster: str, operator: KazooClient) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        record = b'{"schema":1,"slots":1,"address":"http://[fe80::1]:7[/bold]","version":"[/]","newest_schema":1}'
        operator.create(f"/holdfast/{cluster}/nodes/odd", record)
        operator.create(f"/holdfast/{cluster}/nodes/half", record.replace(b"[/]", rb"\ud800"))
        answer = holdfast("cluster", "--connect", connect, "--cluster", cluster)
        assert answer.returncode == 0
        assert "http://[fe80::1]:7[/bold]" in answer.stdout
        assert "nodes/half holds" in answer.stderr


def test_epoch_with_an_invalid_contender_means_no_leader(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
    for contender in (".", "../../..", "c-/x-0000000001"):
        operator.set(f"/holdfast/{cluster}/epoch", b'{"schema":1,"leader":"n1","contender":"%s"}' % contender.encode())
        answer = holdfast("cluster", "--json", "--connect", connect, "--cluster", cluster)
        assert answer.returncode == 0
        assert '"leader": null' in answer.stdout


def test_clusters_of_different_users_share_a_parent_znode(tmp_path: Path, connect: str, cluster: str) -> None:
    """The first node creates the parent znode and must not lock out the others."""
    users = [
        {"zookeeper": {**FAST_TIMING["zookeeper"], "user": user, "password": "x"}, "timing": FAST_TIMING["timing"]}
        for user in ("ann", "bob")
    ]
    prefix = f"{connect}/{cluster}"
    with (
        start_node(tmp_path / "a", prefix, cluster="one", settings=users[0]) as first,
        start_node(tmp_path / "b", prefix, cluster="two", settings=users[1]) as second,
        start_node(tmp_path / "c", prefix, cluster="three") as third,
    ):
        for each in (first, second, third):
            wait_until(each.is_leading, 30, "each node leads its own cluster")


def test_persistent_znode_with_the_id_of_the_node_is_reported(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    operator.create(f"/holdfast/{cluster}/nodes/n1", b"", makepath=True)
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(
            lambda: f"/holdfast/{cluster}/nodes/n1 was not created by a node" in node.problems(),
            30,
            "the node reports the problem",
        )
        operator.delete(f"/holdfast/{cluster}/nodes/n1")
        wait_until(node.is_leading, 30, "the node leads")


def test_contender_without_a_session_does_not_block_the_election(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    operator.create(f"/holdfast/{cluster}/election/c-forged-0000000000", b"", makepath=True)
    operator.create(f"/holdfast/{cluster}/election/what is this", b"")
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        assert "c-forged-0000000000 belongs to no session" in node.problems()


@pytest.mark.parametrize("part", ["state", "spec"])
def test_node_leads_and_sets_a_job_aside_when_its_record_has_a_newer_schema(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, part: str
) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        later = b'{"schema": 3, "name": {"id": "n9"}}'
        operator.create(f"/holdfast/{cluster}/jobs/j1/{part}", later, makepath=True)
        set_aside = "written by a later Holdfast (schema 3)"
        wait_until(lambda: any(set_aside in str(line.get("reason")) for line in node.log), 30, "the node reports the job")
        listed = holdfast("ls", "--json", "--connect", connect, "--cluster", cluster)
        assert set_aside in listed.stdout
        assert node.is_leading() and node.status()["epoch"] == 1
        assert [line["event"] for line in node.log if line.get("job") == "j1"] == ["job set aside"]
        assert operator.get(f"/holdfast/{cluster}/jobs/j1/{part}")[0] == later, "the newer record is not overwritten"


def test_deleted_contender_costs_one_epoch(tmp_path: Path, connect: str, cluster: str, operator: KazooClient) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        path = f"/holdfast/{cluster}/election"
        operator.delete(f"{path}/{operator.get_children(path)[0]}")
        wait_until(lambda: node.is_leading() and node.status()["epoch"] == 2, 30, "the node leads again")


def _delete_cluster(operator: KazooClient, root: str) -> None:
    operator.delete(root, recursive=True)


def _reset_beat(operator: KazooClient, root: str) -> None:
    operator.delete(f"{root}/beat")
    operator.create(f"{root}/beat", b"")


def _replace_epoch(operator: KazooClient, root: str) -> None:
    operator.delete(f"{root}/epoch")
    operator.create(f"{root}/epoch", b"")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [(_delete_cluster, "came back empty"), (_reset_beat, "came back older"), (_replace_epoch, "another cluster")],
)
def test_zookeeper_that_lost_data_is_rejected_until_it_is_accepted(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, damage: Callable[[KazooClient, str], None], expected: str
) -> None:
    root = f"/holdfast/{cluster}"
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(node.is_leading, 30, "the node leads")
        wait_until(lambda: operator.get(f"{root}/beat")[1].version >= 5, 30, "the node has saved some beats")
    damage(operator, root)
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until(
            lambda: expected in node.problems() and "--accept-zookeeper" in node.problems(), 30, "the node reports the problem"
        )
        assert not node.is_leading()
        assert not operator.exists(f"{root}/nodes/n1")
    with start_node(tmp_path, connect, cluster=cluster, options=("--accept-zookeeper",)) as node:
        wait_until(node.is_leading, 30, "the node leads after --accept-zookeeper")
