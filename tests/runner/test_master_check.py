"""Whether a standalone Master is there, before a driver is started for it. The Masters here are plain sockets."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from holdfast.errors import Unavailable
from holdfast.model.job import Spec
from holdfast.runner.master_check import addresses, check_master


def spec(master: str | None) -> Spec:
    return Spec("words", "job.py", "0" * 64, conf=(("spark.master", master),) if master is not None else ())


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that is taken, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "found"),
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
def test_a_url_says_where_the_masters_are(master: str, found: list[tuple[str, int]]) -> None:
    assert addresses(master) == found


@pytest.mark.parametrize("master", [None, "local[*]", "yarn", "k8s://https://127.0.0.1:1", "spark://nonsense"])
def test_what_is_no_standalone_master_is_left_to_spark(master: str | None) -> None:
    asyncio.run(check_master(spec(master)))


def test_one_master_of_several_is_enough(listening: int, silent: int) -> None:
    asyncio.run(check_master(spec(f"spark://127.0.0.1:{silent},127.0.0.1:{listening}")))


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_master_that_is_away_is_named(silent: int, host: str) -> None:
    with pytest.raises(Unavailable, match=f"the Spark Master is away: nobody answers at spark://{host}:{silent}"):
        asyncio.run(check_master(spec(f"spark://{host}:{silent}")))


def test_a_port_that_is_none_is_away(listening: int) -> None:
    with pytest.raises(Unavailable):
        asyncio.run(check_master(spec("spark://127.0.0.1:99999")))
