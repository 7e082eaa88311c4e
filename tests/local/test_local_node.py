"""Log file of a node of a local cluster."""

from pathlib import Path

from holdfast.local.local_node import LocalNode


def make_node(directory: Path) -> LocalNode:
    return LocalNode(
        "n1",
        directory,
        storage=directory / "storage",
        archives=directory / "archives",
        connectors=directory / "connectors",
        auth_file=directory / "zookeeper.auth",
        slots=1,
        tick_ms=2000,
        sync_limit=5,
        accept_zookeeper=False,
    )


def test_large_log_is_rotated_while_the_node_writes_to_it(tmp_path: Path) -> None:
    node, log = make_node(tmp_path), tmp_path / "node.log"
    with log.open("ab", buffering=0) as node_output:
        node_output.write(b"a" * 100)
        node.rotate_log(bytes_max=100)
        assert not (tmp_path / "node.log.1").exists(), "it is not large yet"
        node_output.write(b"b")
        node.rotate_log(bytes_max=100)
        node_output.write(b"next\n")
    assert (tmp_path / "node.log.1").read_bytes() == b"a" * 100 + b"b"
    assert log.read_bytes() == b"next\n"


def test_missing_log_is_not_rotated(tmp_path: Path) -> None:
    make_node(tmp_path).rotate_log(bytes_max=0)
    assert list(tmp_path.iterdir()) == []
