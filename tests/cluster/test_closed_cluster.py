"""Access to a local cluster: only the user who runs `holdfast up` can use its files and znodes."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from holdfast.zk.embedded import EmbeddedEnsemble
from holdfast.zk.records.paths import Paths
from tests.harness.cluster.command import RunningCluster, error_message, holdfast, start_cluster
from tests.harness.cluster.other_user import holdfast_as_other_user, readable_directory
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.real

HOLD_LOCK = "import fcntl, sys, time; f = open(sys.argv[1], 'a+'); fcntl.flock(f, 2); print('held', flush=True); time.sleep(60)"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with start_cluster(tmp_path_factory.mktemp("closed") / "c") as cluster:
        yield cluster


@pytest.fixture
def stranger(up: RunningCluster) -> Iterator[KazooClient]:
    """ZooKeeper client without a password."""
    yield from run_client(KazooClient(up.description()["connect"], timeout=20))


@pytest.fixture
def owner(up: RunningCluster) -> Iterator[KazooClient]:
    yield from run_client(up.zookeeper_client())


def run_client(client: KazooClient) -> Iterator[KazooClient]:
    client.start(20)
    yield client
    client.stop()
    client.close()


def list_znodes(client: KazooClient, path: str) -> list[str]:
    below = [list_znodes(client, f"{path}/{name}") for name in client.get_children(path)]
    return [path, *(each for paths in below for each in paths)]


def run_ok(up: RunningCluster, *arguments: str) -> str:
    answer = holdfast(*arguments, "--dir", str(up.directory))
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def list_jobs(up: RunningCluster) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = json.loads(run_ok(up, "ls", "--all", "--json"))
    return jobs


def test_client_without_the_password_reads_and_changes_nothing(
    up: RunningCluster, owner: KazooClient, stranger: KazooClient
) -> None:
    found = list_znodes(owner, "/holdfast")
    assert {"/holdfast/default/secret", "/holdfast/default/nodes/n1", "/holdfast/default/epoch"} <= set(found)
    for path in found:
        calls: list[Callable[[], object]] = [
            lambda path=path: stranger.get(path),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            lambda path=path: stranger.get_children(path),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            lambda path=path: stranger.set(path, b"forged"),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            lambda path=path: stranger.create(f"{path}/forged"),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        ]
        for call in calls:
            with pytest.raises(NoAuthError):
                call()
    for path in ("/forged", "/holdfast/forged", "/zookeeper/quota/forged"):
        with pytest.raises(NoAuthError):
            stranger.create(path)
    with pytest.raises(NoAuthError):
        stranger.get_children("/")


@pytest.mark.slow
def test_commands_and_jobs_use_the_password_without_an_option(up: RunningCluster, tmp_path: Path) -> None:
    script = tmp_path / "hello.py"
    script.write_text("print('hello from the driver')\n")
    run_ok(up, "submit", str(script), "--name", "hello")
    wait_until(lambda: [job["phase"] for job in list_jobs(up)] == ["FINISHED"], 120, "the job finishes")
    assert "hello from the driver" in run_ok(up, "logs", "hello")
    assert "FINISHED" in run_ok(up, "show", "hello")
    for command in ("cluster", "events", "quarantine"):
        run_ok(up, command, *(["hello"] if command == "events" else []))


def test_connection_without_the_password_is_one_sentence(up: RunningCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = up.description()["connect"]
    assert "ZooKeeper denies access to" in error_message(holdfast("cluster", "--connect", connect))
    monkeypatch.setenv("HOLDFAST_AUTH_FILE", str(up.directory / "zookeeper.auth"))
    assert holdfast("cluster", "--connect", connect).returncode == 0


def test_files_of_the_cluster_are_private(up: RunningCluster) -> None:
    directory = up.directory
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = ["cluster.json", "zookeeper.auth", "up.log", "up.lock", "nodes/n1/node.toml", "nodes/n1/node.log"]
    data = [path for path in directory.glob("zookeeper/server-1/data/version-2/*") if path.is_file()]
    assert data
    for path in (*(directory / name for name in files), *data):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for name in ("zookeeper", "nodes", "storage", "nodes/n1", "zookeeper/server-1"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o700, name
    user, _, password = (directory / "zookeeper.auth").read_text().strip().partition(":")
    assert user and len(password) >= 32
    assert password not in (directory / "cluster.json").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a command as another user")
@pytest.mark.parametrize("command", ["ls", "cluster", "down", "up"])
def test_another_user_gets_one_sentence(command: str) -> None:
    with readable_directory() as parent:
        (parent / "c").mkdir(mode=0o700)
        answer = holdfast_as_other_user(command, "--dir", str(parent / "c"))
        assert "ermission denied" in error_message(answer)


def create_open_cluster(directory: Path) -> None:
    """Create the znodes of a cluster as an earlier version of Holdfast did: open for everyone."""
    ensemble = EmbeddedEnsemble(directory / "zookeeper")
    ensemble.start()
    try:
        ensemble.wait_ready(60)
        client = KazooClient(ensemble.connect_string)
        client.start(20)
        for path in Paths("default").required_znodes:
            client.create(path)
        client.create("/holdfast/default/secret", b"s" * 64)
        client.set("/holdfast/default/epoch", b"")
        client.stop()
        client.close()
    finally:
        ensemble.stop()


@pytest.mark.slow
def test_open_cluster_of_an_earlier_version_is_closed_and_its_runners_stop_first(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    directory.mkdir(mode=0o755)
    create_open_cluster(directory)
    lock = directory / "nodes" / "n1" / "attempts" / "j1" / "1" / "runner.lock"
    lock.parent.mkdir(parents=True)
    runner = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, str(lock)], stdout=subprocess.PIPE)
    try:
        assert runner.stdout is not None and runner.stdout.readline() == b"held\n"
        lock.write_text(str(runner.pid))
        with start_cluster(directory) as cluster:
            assert runner.wait(30) == -signal.SIGTERM
            assert cluster.leader()[1] == 2, "the epoch of the earlier version is kept"
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
            client = KazooClient(cluster.description()["connect"], timeout=20)
            client.start(20)
            for path in ("/", "/holdfast", "/holdfast/default", "/holdfast/default/secret"):
                with pytest.raises(NoAuthError):
                    client.get(path)
            client.stop()
            client.close()
    finally:
        runner.kill()
        runner.wait()
        if runner.stdout is not None:
            runner.stdout.close()


def test_directory_with_other_files_keeps_its_mode(tmp_path: Path) -> None:
    from holdfast.local.directory_layout import DirectoryLayout
    from holdfast.local.private_files import create_private_directory

    for name, mode, content, expected in (
        ("own", 0o755, "cluster.json", 0o700),
        ("project", 0o755, "main.py", 0o755),
        ("sticky", 0o1777, "cluster.json", 0o1777),
    ):
        directory = tmp_path / name
        directory.mkdir()
        (directory / content).touch()
        (directory / "cluster.json").touch(mode=0o644)
        directory.chmod(mode)
        create_private_directory(DirectoryLayout(directory))
        assert stat.S_IMODE(directory.stat().st_mode) == expected
        assert stat.S_IMODE((directory / "cluster.json").stat().st_mode) == 0o600
