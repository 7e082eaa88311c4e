"""Directory of this process's cgroup in the cgroup v2 hierarchy. Standard library only: the watchdog imports this.

Both /proc/self/cgroup and the roots in /proc/self/mountinfo are relative to the root of the cgroup namespace. Either may begin
with `..` if it lies above or beside that root.
"""

import errno
import os
from collections.abc import Iterator

_UNKNOWN_LEVELS_MAX = 8
"""Limit for the search below a mount whose root is above the root of the cgroup namespace."""


def find_own_cgroup() -> str:
    """Return the directory of this process's own cgroup, a writable one if several mounts show it.

    Raises OSError if no mounted v2 hierarchy shows it.
    """
    own = read_own_path(_read_text("/proc/self/cgroup"))
    mounts = list(read_mounts(_read_text("/proc/self/mountinfo")))
    if own is None or not mounts:
        raise OSError(errno.ENOENT, "no cgroup v2 hierarchy is mounted")
    candidates = (directory for root, mount_point in mounts for directory in _list_candidates(own, root, mount_point))
    visible = list(filter(_contains_this_process, candidates))
    # Another mount of the same hierarchy may be read-only.
    if directory := next((each for each in visible if os.access(each, os.W_OK)), None) or next(iter(visible), None):
        return directory
    raise OSError(errno.ENOENT, f"the cgroup {own} of this process is not visible in {mounts[0][1]}")


def _read_text(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read())  # a path may contain any bytes: any mount of the machine is listed


def read_own_path(text: str) -> str | None:
    """Return the path of the v2 hierarchy from /proc/self/cgroup, or None if there is none."""
    return next((line[len("0::") :] for line in text.split("\n") if line.startswith("0::")), None)


def read_mounts(mountinfo: str) -> Iterator[tuple[str, str]]:
    """Yield (root, mount point) of each mount of the v2 hierarchy. Of several at one place, the last one is visible."""
    for line in reversed(mountinfo.split("\n")):
        # Optional fields of variable number precede the hyphen.
        fields, _, source = line.partition(" - ")
        if source.split(" ")[0] == "cgroup2":
            root, mount_point = fields.split(" ")[3:5]
            yield _unescape(root), _unescape(mount_point)


def split_relative_path(own: str, root: str) -> tuple[int, str] | None:
    """Return the path of a cgroup below a mount's root: the number of levels with unknown names, and the path below these.

    None if the cgroup is not below the root.
    """
    path, above = [part for part in own.split("/") if part], [part for part in root.split("/") if part]
    while above and path and above[0] == path[0]:
        del above[0], path[0]
    if any(part != ".." for part in above) or path[:1] == [".."]:
        return None
    return len(above), "/".join(path)


def _list_candidates(own: str, root: str, mount_point: str) -> list[str]:
    relative = split_relative_path(own, root)
    if relative is None or relative[0] > _UNKNOWN_LEVELS_MAX:
        return []
    unknown_levels, path = relative
    directories = [mount_point]
    for _ in range(unknown_levels):
        directories = [child for directory in directories for child in _list_directories(directory)]
    return [f"{directory}/{path}".rstrip("/") for directory in directories]


def _list_directories(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _contains_this_process(directory: str) -> bool:
    try:
        with open(f"{directory}/cgroup.procs") as file:
            return str(os.getpid()) in file.read().split()
    except OSError:
        return False  # not there, or threaded: such a cgroup cannot contain whole processes


def _unescape(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
