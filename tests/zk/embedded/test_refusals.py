"""What the embedded ZooKeeper needs, and the sentence for each thing that is missing."""

import json
import os
import threading
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Refused
from holdfast.zk.embedded import Ensemble, Ports, Server, Settings, disk_stall
from holdfast.zk.embedded.java import class_path, find_jars, find_java, parse_version


def fake_java(directory: Path, version: str) -> Path:
    (directory / "bin").mkdir(parents=True)
    java = directory / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    return java


def lone(directory: Path) -> Server:
    return Server(1, directory, {1: Ports.pick()}, Settings())


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
def test_java_versions_are_read(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.1"')
    path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    assert find_java({"JAVA_HOME": str(home.parent.parent), "PATH": str(path.parent)}) == home
    assert find_java({"PATH": str(path.parent)}) == path


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"PATH": "/nowhere"}, "there is no `java` on PATH: install a JDK 17 or newer"),
        ({"JAVA_HOME": "/nowhere"}, "JAVA_HOME is /nowhere, but there is no Java in it: install a JDK 17 or newer"),
    ],
)
def test_no_java_is_refused(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        find_java(environ)


def test_an_old_or_mute_java_is_refused(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "11.0.2"')
    with pytest.raises(Refused, match=f"{old} is Java 11, which is too old: install a JDK 17"):
        find_java({"JAVA_HOME": str(tmp_path / "old")})
    fake_java(tmp_path / "mute", "")
    with pytest.raises(Refused, match="does not say which Java it is"):
        find_java({"JAVA_HOME": str(tmp_path / "mute")})


def test_no_pyspark_is_refused_and_says_how_to_get_it() -> None:
    with pytest.raises(Refused, match=r'not installed: install it with: pip install "holdfast\[spark\]"'):
        find_jars("a_package_that_is_not_there")
    # A package without jars, like the PySpark that is a client only.
    with pytest.raises(Refused, match="has no jars"):
        find_jars("holdfast")


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-3.9.5.jar").touch()
    with pytest.raises(Refused, match=r"zookeeper-jute-\*\.jar is missing in"):
        class_path(tmp_path)


def test_the_class_path_has_zookeeper_and_leaves_spark_out() -> None:
    names = [Path(jar).name for jar in class_path(find_jars()).split(os.pathsep)]
    assert any(name.startswith("zookeeper-3") for name in names)
    assert not any(name.startswith(("spark-", "hadoop-", "scala-")) for name in names)


def test_no_compiler_is_refused_only_when_the_shim_is_not_there_yet(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="stalling a disk needs a C compiler, and there is no `no-such-cc` on PATH"):
        disk_stall.build(tmp_path, compiler="no-such-cc")
    if os.access("/usr/bin/cc", os.X_OK):
        library = disk_stall.build(tmp_path)
        assert disk_stall.build(tmp_path, compiler="no-such-cc") == library
        assert list(tmp_path.iterdir()) == [library]


def test_a_library_whose_name_the_loader_would_cut_is_refused(tmp_path: Path) -> None:
    server, stall = tmp_path / "a server", tmp_path / "a server" / "stalled"
    # A space above both of them does no harm.
    environment = disk_stall.preloaded(tmp_path / "shim" / "x.so", directory=server, stall_file=stall)
    assert environment["LD_PRELOAD"].split(":")[0] == "./../shim/x.so"
    with pytest.raises(Refused, match="cannot be preloaded because of its name"):
        disk_stall.preloaded(tmp_path / "a shim" / "x.so", directory=server, stall_file=stall)


def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    compiler = tmp_path / "broken-cc"
    compiler.write_text("#!/bin/sh\necho 'out of luck' >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(Refused, match=r"cannot compile disk_stall\.c: out of luck"):
        disk_stall.build(tmp_path / "cache", compiler=str(compiler))


def test_a_server_is_started_from_the_main_thread_only(tmp_path: Path) -> None:
    server = lone(tmp_path)
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
    assert refusal.endswith("java must be started from the main thread: it ends with the thread that starts it")
    assert not server.running


def test_a_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    # A file where a directory is needed: unlike permissions, this stops root as well.
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match=f"cannot use its directory {tmp_path}/file/server: Not a directory"):
        lone(tmp_path / "file" / "server").start()
    with pytest.raises(Refused, match=f"cannot use {tmp_path}/file/zk: Not a directory"):
        Ensemble(tmp_path / "file" / "zk", size=1)


def test_a_server_that_does_not_run_cannot_be_tormented(tmp_path: Path) -> None:
    server = lone(tmp_path)
    for torment in (server.pause, server.resume):
        with pytest.raises(Conflict, match="ZooKeeper server 1 is not running"):
            torment()
    with pytest.raises(Refused, match="made without faults=True"):
        server.stall_disk()
    server.stop()
    server.kill()
    assert server.exit_hint() == ""
    assert server.pid is None


@pytest.mark.parametrize("size", [-1, 2, 4, 7])
def test_an_ensemble_without_a_clear_majority_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(Refused, match=f"has 1, 3 or 5 servers, not {size}"):
        Ensemble(tmp_path, size=size)


def test_an_ensemble_keeps_its_ports_and_refuses_another_number_of_servers(tmp_path: Path) -> None:
    first = Ensemble(tmp_path, size=3)
    ports = [number for server in first.servers for number in server.members[server.id].numbers()]
    assert len(set(ports)) == 12
    assert Ensemble(tmp_path).connect == Ensemble(tmp_path, size=3).connect == first.connect
    with pytest.raises(Refused, match="has 3 servers, and its data cannot be opened with 1: use --zookeepers 3"):
        Ensemble(tmp_path, size=1)


def test_an_ensemble_without_its_file_still_knows_how_many_servers_it_has(tmp_path: Path) -> None:
    for server in Ensemble(tmp_path, size=3).servers:
        server.directory.mkdir()
    (tmp_path / "ensemble.json").unlink()
    with pytest.raises(Refused, match="has 3 servers"):
        Ensemble(tmp_path, size=5)
    assert len(Ensemble(tmp_path).servers) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"servers": 3}', '{"servers": [{"id": 1}]}', '{"servers": []}'])
def test_an_unreadable_ensemble_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "ensemble.json").write_text(text)
    with pytest.raises(Refused, match=r"ensemble\.json"):
        Ensemble(tmp_path)


def test_an_ensemble_file_with_a_gap_is_refused(tmp_path: Path) -> None:
    Ensemble(tmp_path, size=3)
    file = tmp_path / "ensemble.json"
    content = json.loads(file.read_text())
    content["servers"][0]["id"] = 9
    file.write_text(json.dumps(content))
    with pytest.raises(Refused, match=r"names the servers \[2, 3, 9\]"):
        Ensemble(tmp_path)


def test_waiting_for_servers_that_were_never_started_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="ZooKeeper server 1 is not running: it was not started"):
        Ensemble(tmp_path, size=1).wait_ready(60)
