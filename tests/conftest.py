"""Shared fixtures. Servers are real, and start only when a test requests one."""

import os
import secrets
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from kazoo.client import KazooClient

from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings, ZooKeeperServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores SIGINT for background processes. Without this, every process that a test interrupts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("HOLDFAST_ARCHIVES", "off")  # short-lived test nodes do not need archives; `test_archive` builds one

# No test may fail because the machine is busy: Hypothesis measures the duration of examples and of their generation by default.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() == "default":
    settings.load_profile("untimed")

READY_S = 60.0
_REPORT_LINE = "report line"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let parallel workers start with the files that probably take longest, so that none of them is the last to run."""
    if not hasattr(config, "workerinput"):
        return
    priorities: dict[Path, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for item in items:
        timeout_s, count = priorities[item.path]
        timeout = item.get_closest_marker("timeout")
        is_long = any(item.get_closest_marker(name) for name in ("real", "slow"))
        priorities[item.path] = (max(timeout_s, timeout.args[0] if timeout else 0.0), count + is_long)
    items.sort(key=lambda item: priorities[item.path], reverse=True)


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Add a line that is printed at the end of the run, whether the test passes or not.

    The line travels as a property of the test: with parallel workers, another process prints the summary.
    """
    properties: list[tuple[str, object]] = request.node.user_properties

    def add(line: str) -> None:
        properties.append((_REPORT_LINE, line))

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for outcome in ("passed", "failed"):
        for result in terminalreporter.getreports(outcome):
            for name, line in getattr(result, "user_properties", ()):
                if name == _REPORT_LINE and result.when == "call":
                    terminalreporter.write_line(str(line))
    terminalreporter.write_line(f"random seed: {config.getoption('randomly_seed', None)}")


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    """Ensemble of one server with short ticks, which grants session timeouts of 4 s."""
    ensemble = EmbeddedEnsemble(tmp_path_factory.mktemp("single"), size=1, settings=ServerSettings(tick_ms=200))
    try:
        ensemble.start()
        ensemble.wait_ready(60)
        _create_shared_root(ensemble.servers[0])
        yield ensemble
    finally:
        ensemble.stop()


def _create_shared_root(server: ZooKeeperServer) -> None:
    """Create the parent of all clusters without access control. Otherwise it belongs to the first test that creates it."""
    client = KazooClient(f"127.0.0.1:{server.client_port}")
    client.start(20)
    client.create("/holdfast")
    client.stop()
    client.close()


@pytest.fixture
def server(single: EmbeddedEnsemble) -> ZooKeeperServer:
    return single.servers[0]


@pytest.fixture
def root() -> str:
    """Unique root path for the znodes of this test."""
    return f"/t{secrets.token_hex(6)}"


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    """Ensemble of three servers with a tick of 1 s. Their disks can be stalled if a C compiler is installed."""
    settings = ServerSettings(tick_ms=1000, faults=True)
    # The directory name contains a space, as users' directories may.
    ensemble = EmbeddedEnsemble(tmp_path_factory.mktemp("three servers"), size=3, settings=settings)
    try:
        ensemble.start()
        ensemble.wait_ready(READY_S)
        yield ensemble
    finally:
        ensemble.stop()


@pytest.fixture
def repaired_ensemble(ensemble: EmbeddedEnsemble) -> Iterator[EmbeddedEnsemble]:
    """Healthy ensemble that is repaired after the test, whatever the test did to its servers."""
    ensemble.wait_ready(READY_S)
    yield ensemble
    for server in ensemble.servers:
        server.resume_disk()
        if server.running:
            server.resume()
    ensemble.start()
    ensemble.wait_ready(READY_S)
