"""What tests share. Servers are real, and started only if a test asks for one."""

import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from holdfast.zk.embedded import Ensemble, Server, Settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it for what it runs in the background, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("HOLDFAST_ARCHIVES", "off")  # a hundred nodes of a few seconds each need none; `test_archive` makes one

READY_S = 60.0
_REPORTED = pytest.StashKey[list[str]]()


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say something that is printed at the end of the run, whether the test passes or not."""
    return request.config.stash.setdefault(_REPORTED, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_REPORTED, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """One server with short ticks, so that sessions of four seconds are granted."""
    ensemble = Ensemble(tmp_path_factory.mktemp("single"), size=1, settings=Settings(tick_ms=200))
    try:
        ensemble.start()
        ensemble.wait_ready(60)
        _make_common_ground(ensemble.servers[0])
        yield ensemble
    finally:
        ensemble.stop()


def _make_common_ground(server: Server) -> None:
    """The folder above all clusters, open to everybody: otherwise it belongs to whichever test is the first to need it."""
    client = KazooClient(f"127.0.0.1:{server.client_port}")
    client.start(20)
    client.create("/holdfast")
    client.stop()
    client.close()


@pytest.fixture
def server(single: Ensemble) -> Server:
    return single.servers[0]


@pytest.fixture
def root() -> str:
    """A path that no other test uses."""
    return f"/t{secrets.token_hex(6)}"


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three servers with a tick of one second, whose disks can be stalled where there is a compiler."""
    settings = Settings(tick_ms=1000, faults=shutil.which("cc") is not None)
    # With a space, because people have such directories.
    ensemble = Ensemble(tmp_path_factory.mktemp("three servers"), size=3, settings=settings)
    try:
        ensemble.start()
        ensemble.wait_ready(READY_S)
        yield ensemble
    finally:
        ensemble.stop()


@pytest.fixture
def hurt(ensemble: Ensemble) -> Iterator[Ensemble]:
    """The ensemble, healthy; and healthy again afterwards, whatever the test did to its servers."""
    ensemble.wait_ready(READY_S)
    yield ensemble
    for server in ensemble.servers:
        server.release_disk()
        if server.running:
            server.resume()
    ensemble.start()
    ensemble.wait_ready(READY_S)
