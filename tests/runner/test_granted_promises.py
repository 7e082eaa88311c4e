"""Promises for one attempt, as its runner reads them."""

import os
from pathlib import Path

import pytest

from holdfast.model.identifiers import NodeId
from holdfast.runner.attempt_layout import GRANTED_PROMISES, PROMISES_WANTED
from holdfast.runner.granted_promises import GrantedPromises, write_granted_promises

N1, N2 = NodeId("n1"), NodeId("n2")
NEVER = float("-inf")


def publish(directory: Path, *, boot: str = "b1", **nodes: float) -> None:
    write_granted_promises(str(directory), boot=boot, nodes={NodeId(node): until for node, until in nodes.items()})


def test_earliest_end_of_all_nodes_counts(tmp_path: Path) -> None:
    promises = GrantedPromises(tmp_path, boot="b1")
    assert promises.promised_until([N1]) == NEVER
    publish(tmp_path, n1=20.0, n2=15.0)
    assert promises.promised_until([N1, N2]) == 15.0
    assert promises.promised_until([N1]) == 20.0
    assert promises.promised_until([N1, NodeId("n3")]) == NEVER
    assert promises.promised_until([]) == NEVER, "without a failsafe set, nothing protects the attempt"


def test_promises_outlast_the_agent_that_requested_them(tmp_path: Path) -> None:
    promises = GrantedPromises(tmp_path, boot="b1")
    publish(tmp_path, n1=20.0, n2=15.0)
    assert promises.promised_until([N1, N2]) == 15.0
    publish(tmp_path, n1=25.0)
    assert promises.promised_until([N1, N2]) == 15.0
    (tmp_path / GRANTED_PROMISES).unlink()
    assert promises.promised_until([N1, N2]) == 15.0


def test_promises_of_an_earlier_boot_are_ignored(tmp_path: Path) -> None:
    publish(tmp_path, boot="b0", n1=20.0)
    assert GrantedPromises(tmp_path, boot="b1").promised_until([N1]) == NEVER


@pytest.mark.parametrize("content", [b"", b"noise", b"[]", b'{"boot": "b1"}', b'{"boot": "b1", "nodes": {"n1": "x"}}'])
def test_unreadable_file_is_ignored_until_it_is_replaced(tmp_path: Path, content: bytes) -> None:
    promises = GrantedPromises(tmp_path, boot="b1")
    (tmp_path / GRANTED_PROMISES).write_bytes(content)
    assert promises.promised_until([N1]) == NEVER
    publish(tmp_path, n1=20.0)
    assert promises.promised_until([N1]) == 20.0


def test_each_request_changes_the_time_of_the_file(tmp_path: Path) -> None:
    promises = GrantedPromises(tmp_path, boot="b1")
    promises.request_promises()
    file = tmp_path / PROMISES_WANTED
    os.utime(file, (1, 1))
    promises.request_promises()
    assert file.stat().st_mtime > 1


def test_request_on_a_missing_directory_is_no_error(tmp_path: Path) -> None:
    GrantedPromises(tmp_path / "missing", boot="b1").request_promises()
