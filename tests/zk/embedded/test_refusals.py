"""Requirements of the embedded ZooKeeper, and the error message for each one that is missing."""

import json
import os
import threading
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Refused
from holdfast.zk.embedded import EmbeddedEnsemble, Ports, ServerSettings, ZooKeeperServer, disk_stall
from holdfast.zk.embedded.java import class_path, find_jars, find_java, parse_version


def fake_java(directory: Path, version: str) -> Path:
    (directory / "bin").mkdir(parents=True)
    java = directory / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    return java


def standalone_server(directory: Path) -> ZooKeeperServer:
    return ZooKeeperServer(1, directory, {1: Ports.pick()}, ServerSettings())


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("bash: java: nothing here", None),
    ],
)
def test_java_version_is_parsed(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_takes_precedence_over_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.1"')
    path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    assert find_java({"JAVA_HOME": str(home.parent.parent), "PATH": str(path.parent)}) == home
    assert find_java({"PATH": str(path.parent)}) == path


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"PATH": "/nowhere"}, "`java` is not on PATH: install JDK 17 or newer"),
        ({"JAVA_HOME": "/nowhere"}, "JAVA_HOME is /nowhere, which contains no Java: install JDK 17 or newer"),
    ],
)
def test_missing_java_is_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(Refused, match=message):
        find_java(environ)


def test_old_java_and_java_without_a_version_are_refused(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "11.0.2"')
    with pytest.raises(Refused, match=f"{old} is Java 11, which is too old: install JDK 17"):
        find_java({"JAVA_HOME": str(tmp_path / "old")})
    fake_java(tmp_path / "silent", "")
    with pytest.raises(Refused, match="does not report a Java version"):
        find_java({"JAVA_HOME": str(tmp_path / "silent")})


def test_missing_pyspark_is_refused_with_the_install_command() -> None:
    with pytest.raises(Refused, match=r'not installed: install it with: pip install "holdfast\[spark\]"'):
        find_jars("a_package_that_is_not_there")
    # Any package without jars, like the client-only PySpark.
    with pytest.raises(Refused, match="has no jars"):
        find_jars("holdfast")


def test_missing_jar_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-3.9.5.jar").touch()
    with pytest.raises(Refused, match=r"zookeeper-jute-\*\.jar is missing in"):
        class_path(tmp_path)


def test_class_path_contains_zookeeper_but_not_spark() -> None:
    names = [Path(jar).name for jar in class_path(find_jars()).split(os.pathsep)]
    assert any(name.startswith("zookeeper-3") for name in names)
    assert not any(name.startswith(("spark-", "hadoop-", "scala-")) for name in names)


def test_missing_compiler_is_refused_unless_the_library_is_cached(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="stalling a disk needs a C compiler, but `no-such-cc` is not on PATH"):
        disk_stall.build_library(tmp_path, compiler="no-such-cc")
    if os.access("/usr/bin/cc", os.X_OK):
        library = disk_stall.build_library(tmp_path)
        assert disk_stall.build_library(tmp_path, compiler="no-such-cc") == library
        assert list(tmp_path.iterdir()) == [library]


def test_library_path_with_spaces_is_refused(tmp_path: Path) -> None:
    server, stall = tmp_path / "a server", tmp_path / "a server" / "stalled"
    # A space in a common parent directory is harmless.
    environment = disk_stall.preload_environment(tmp_path / "shim" / "x.so", directory=server, stall_file=stall)
    assert environment["LD_PRELOAD"].split(":")[0] == "./../shim/x.so"
    with pytest.raises(Refused, match=r"cannot preload .*: its path must not contain spaces"):
        disk_stall.preload_environment(tmp_path / "a shim" / "x.so", directory=server, stall_file=stall)


def test_error_of_a_failing_compiler_is_quoted(tmp_path: Path) -> None:
    compiler = tmp_path / "broken-cc"
    compiler.write_text("#!/bin/sh\necho 'no memory left' >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(Refused, match=r"cannot compile disk_stall\.c: no memory left"):
        disk_stall.build_library(tmp_path / "cache", compiler=str(compiler))


def test_server_start_from_another_thread_is_refused(tmp_path: Path) -> None:
    server = standalone_server(tmp_path)
    refusals: list[str] = []

    def start() -> None:
        try:
            server.start()
        except Refused as refused:
            refusals.append(str(refused))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    (refusal,) = refusals
    assert refusal.endswith("java must be started from the main thread: it gets a signal when its parent thread ends")
    assert not server.running


def test_unusable_directory_is_refused(tmp_path: Path) -> None:
    # Put a file where a directory is needed: unlike permissions, this stops root too.
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match=f"cannot use its directory {tmp_path}/file/server: Not a directory"):
        standalone_server(tmp_path / "file" / "server").start()
    with pytest.raises(
        Refused, match=f"cannot use the directory of the ZooKeeper ensemble, {tmp_path}/file/zk: Not a directory"
    ):
        EmbeddedEnsemble(tmp_path / "file" / "zk", size=1)


def test_faults_in_a_stopped_server_raise_conflict(tmp_path: Path) -> None:
    server = standalone_server(tmp_path)
    for inject_fault in (server.pause, server.resume):
        with pytest.raises(Conflict, match="ZooKeeper server 1 is not running"):
            inject_fault()
    with pytest.raises(Refused, match="do not have faults=True"):
        server.stall_disk()
    server.stop()
    server.kill()
    assert server.exit_reason() == ""
    assert server.pid is None


@pytest.mark.parametrize("size", [-1, 2, 4, 7])
def test_ensemble_of_an_unsupported_size_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(Refused, match=f"has 1, 3 or 5 servers, not {size}"):
        EmbeddedEnsemble(tmp_path, size=size)


def test_ensemble_keeps_its_ports_and_refuses_another_size(tmp_path: Path) -> None:
    first = EmbeddedEnsemble(tmp_path, size=3)
    ports = [number for server in first.servers for number in server.members[server.id].numbers()]
    assert len(set(ports)) == 12
    assert (
        EmbeddedEnsemble(tmp_path).connect_string == EmbeddedEnsemble(tmp_path, size=3).connect_string == first.connect_string
    )
    with pytest.raises(Refused, match="has 3 servers and cannot be opened with 1: use --zookeepers 3"):
        EmbeddedEnsemble(tmp_path, size=1)


def test_size_is_known_from_the_data_directories_if_the_ensemble_file_is_missing(tmp_path: Path) -> None:
    for server in EmbeddedEnsemble(tmp_path, size=3).servers:
        server.directory.mkdir()
    (tmp_path / "ensemble.json").unlink()
    with pytest.raises(Refused, match="has 3 servers"):
        EmbeddedEnsemble(tmp_path, size=5)
    assert len(EmbeddedEnsemble(tmp_path).servers) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"servers": 3}', '{"servers": [{"id": 1}]}', '{"servers": []}'])
def test_malformed_ensemble_file_is_refused_and_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "ensemble.json").write_text(text)
    with pytest.raises(Refused, match=r"ensemble\.json"):
        EmbeddedEnsemble(tmp_path)


def test_ensemble_file_with_a_gap_in_the_ids_is_refused(tmp_path: Path) -> None:
    EmbeddedEnsemble(tmp_path, size=3)
    file = tmp_path / "ensemble.json"
    content = json.loads(file.read_text())
    content["servers"][0]["id"] = 9
    file.write_text(json.dumps(content))
    with pytest.raises(Refused, match=r"lists servers \[2, 3, 9\]"):
        EmbeddedEnsemble(tmp_path)


def test_wait_ready_fails_at_once_if_a_server_was_never_started(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="ZooKeeper server 1 is not running: it was not started"):
        EmbeddedEnsemble(tmp_path, size=1).wait_ready(60)
