"""Code in processes of its own: to be killed, starved, or stripped of root's powers."""

import os
import subprocess
import sys
from pathlib import Path

# Even root is then bound by the modes of files. It holds from the next exec on.
_DROP_POWERS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def start(code: str, *arguments: object, pass_fds: tuple[int, ...] = ()) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(python(code, *arguments), stdin=pipe, stdout=pipe, text=True, pass_fds=pass_fds)


def run(code: str, *arguments: object) -> str:
    """What it printed. Fails if it failed."""
    done = subprocess.run(python(code, *arguments), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_as_anybody(code: str, *arguments: object) -> str:
    """Bound by the modes of files, as everybody but root always is."""
    if os.geteuid() != 0:
        return run(code, *arguments)
    return run(_DROP_POWERS, "-c", code, *arguments)


def run_on_small_disk(code: str, disk: Path, *arguments: object) -> str:
    """With a file system of one megabyte at `disk`, seen by that process alone.

    Where nobody may mount, not even in a user namespace, the kernel's limit on the size of files takes the disk's place.
    """
    disk.mkdir(exist_ok=True)
    mounting = ["sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', str(disk)]
    for unshare in (["unshare", "-m"], ["unshare", "-U", "-r", "-m"]):
        try:
            possible = subprocess.run([*unshare, *mounting, "true"], capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            possible = False
        if possible:
            command = [*unshare, *mounting, *python(code, disk, *arguments)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    return run(limit + code, disk, *arguments)


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except FileNotFoundError:
            continue
    return found


def has_socket(pid: int) -> bool:
    try:
        return any(os.readlink(entry).startswith("socket:") for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # one was closed meanwhile
        return False
