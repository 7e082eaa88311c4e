"""Check of a standalone Spark Master before a driver is started. The Masters are plain sockets."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.model.job import Spec
from holdfast.runner.execution.master_check import check_master, master_addresses


def spec(master: str | None) -> Spec:
    return Spec("words", "job.py", "0" * 64, conf=(("spark.master", master),) if master is not None else ())


@pytest.fixture
def listening_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Bound port on which no process listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:7077,10.0.0.2:7078", [("a", 7077), ("10.0.0.2", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("spark://a", []),
        ("spark://", []),
        ("local[2]", []),
        ("yarn", []),
        ("k8s://https://10.0.0.1:6443", []),
    ],
)
def test_master_addresses_are_parsed_from_the_url(master: str, expected: list[tuple[str, int]]) -> None:
    assert master_addresses(master) == expected


@pytest.mark.parametrize("master", [None, "local[*]", "k8s://https://127.0.0.1:1", "spark://nonsense"])
def test_other_masters_are_not_checked(master: str | None) -> None:
    asyncio.run(check_master(spec(master), {}))


def test_one_reachable_master_is_enough(listening_port: int, silent_port: int) -> None:
    asyncio.run(check_master(spec(f"spark://127.0.0.1:{silent_port},127.0.0.1:{listening_port}"), {}))


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_unreachable_master_is_named_in_the_error(silent_port: int, host: str) -> None:
    with pytest.raises(
        Unavailable, match=f"the Spark Master is unreachable: no Master answers at spark://{host}:{silent_port}"
    ):
        asyncio.run(check_master(spec(f"spark://{host}:{silent_port}"), {}))


def test_invalid_port_counts_as_unreachable(listening_port: int) -> None:
    with pytest.raises(Unavailable):
        asyncio.run(check_master(spec("spark://127.0.0.1:99999"), {}))


@pytest.fixture
def hadoop(tmp_path: Path) -> dict[str, str]:
    """Environment of a node with a directory for the configuration of Hadoop."""
    return {"HADOOP_CONF_DIR": str(tmp_path)}


def write_yarn_site(environ: dict[str, str], port: int) -> None:
    text = f"<property><name>yarn.resourcemanager.address</name><value>127.0.0.1:{port}</value></property>"
    (Path(environ["HADOOP_CONF_DIR"]) / "yarn-site.xml").write_text(f"<configuration>{text}</configuration>")


def test_reachable_resource_manager_is_accepted(hadoop: dict[str, str], listening_port: int) -> None:
    write_yarn_site(hadoop, listening_port)
    asyncio.run(check_master(spec("yarn"), hadoop))


def test_unreachable_resource_manager_is_named_in_the_error(hadoop: dict[str, str], silent_port: int) -> None:
    write_yarn_site(hadoop, silent_port)
    with pytest.raises(Unavailable, match=f"YARN is unreachable: no ResourceManager answers at 127.0.0.1:{silent_port}"):
        asyncio.run(check_master(spec("yarn"), hadoop))


def test_node_without_a_configuration_of_yarn_cannot_start_the_job() -> None:
    with pytest.raises(Unavailable, match="set HADOOP_CONF_DIR"):
        asyncio.run(check_master(spec("yarn"), {}))
