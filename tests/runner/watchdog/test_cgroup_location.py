"""Search for the own cgroup in texts of /proc, as systems with different hierarchies and namespaces show them."""

import pytest

from holdfast.runner.watchdog.cgroup_location import read_mounts, read_own_path, split_relative_path

HYBRID_CGROUP = "9:name=systemd:/\n4:memory:/limited\n0::/system.slice/holdfast.service\n"
HYBRID_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:12 master:3 - cgroup2 cgroup2 rw,nsdelegate
"""


def test_unified_directory_of_a_hybrid_hierarchy_is_found() -> None:
    assert read_own_path(HYBRID_CGROUP) == "/system.slice/holdfast.service"
    assert list(read_mounts(HYBRID_MOUNTS)) == [("/", "/sys/fs/cgroup/unified")]


def test_system_with_only_the_first_version_has_no_own_path() -> None:
    assert read_own_path("4:memory:/limited\n") is None
    assert list(read_mounts("35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")) == []


def test_last_mount_comes_first_and_special_characters_are_decoded() -> None:
    text = "41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n42 31 0:38 /a\\040b /my\\134\\011cg rw - cgroup2 none rw\n"
    assert list(read_mounts(text)) == [("/a b", "/my\\\tcg"), ("/", "/cg")]


@pytest.mark.parametrize(
    ("own", "root", "expected"),
    [
        ("/", "/", (0, "")),
        ("/system.slice/holdfast.service", "/", (0, "system.slice/holdfast.service")),
        ("/docker/c1", "/docker/c1", (0, "")),
        ("/docker/c1/init", "/docker/c1", (0, "init")),
        ("/docker/c1", "/docker/c2", None),
        ("/docker/c10", "/docker/c1", None),
        ("/", "/docker/c1", None),
        ("/", "/..", (1, "")),
        ("/worker", "/../..", (2, "worker")),
        ("/../other", "/..", (0, "other")),
        ("/../other", "/", None),
        ("/", "/../other", None),
    ],
)
def test_path_below_a_mount_is_relative_to_its_root(own: str, root: str, expected: tuple[int, str] | None) -> None:
    """Two dots lead above the root of the cgroup namespace, whose own name is unknown."""
    assert split_relative_path(own, root) == expected
