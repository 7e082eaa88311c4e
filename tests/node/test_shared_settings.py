"""The cluster's secret in the node's directory: saved, loaded and private."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from holdfast.node.node_directory import SECRET_FILE, NodeDirectory
from holdfast.node.shared_settings import SharedSettings
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Stat, Znode

PATHS = Paths("c")


class SettingsClient:
    """Client of a ZooKeeper that holds only the shared settings."""

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        return Znode({PATHS.secret: b"new-secret\n", PATHS.storage: b"/storage"}[path], cast(Stat, None))


def open_settings(directory: NodeDirectory) -> SharedSettings:
    return SharedSettings(
        PATHS,
        storage="/storage",
        new_secret=lambda: "proposed",
        saved_secret=directory.read_secret(),
        save_secret=directory.save_secret,
    )


def test_saved_secret_is_known_without_zookeeper(tmp_path: Path) -> None:
    directory = NodeDirectory(tmp_path)
    assert open_settings(directory).secret is None
    asyncio.run(open_settings(directory).load(cast(Client, SettingsClient())))
    assert open_settings(directory).secret == "new-secret"
    assert (tmp_path / SECRET_FILE).stat().st_mode & 0o777 == 0o600


def test_changed_secret_replaces_the_saved_one(tmp_path: Path) -> None:
    directory = NodeDirectory(tmp_path)
    directory.save_secret("old-secret")
    settings = open_settings(directory)
    assert settings.secret == "old-secret"
    asyncio.run(settings.load(cast(Client, SettingsClient())))
    assert (settings.secret, directory.read_secret()) == ("new-secret", "new-secret")


def test_secret_that_cannot_be_saved_is_still_used(tmp_path: Path) -> None:
    settings = open_settings(NodeDirectory(tmp_path / "missing"))
    asyncio.run(settings.load(cast(Client, SettingsClient())))
    assert settings.secret == "new-secret"


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o750])
def test_directory_of_a_node_becomes_private(tmp_path: Path, mode: int) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node").chmod(mode)
    with NodeDirectory(tmp_path / "node").lock():
        assert (tmp_path / "node").stat().st_mode & 0o777 == 0o700
