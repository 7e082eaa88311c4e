"""Run Python code in separate processes: to kill them, limit their disk, or drop root's capabilities."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

# Without these capabilities file modes also apply to root, from the next exec on.
_DROP_CAPABILITIES = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def python_command(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def start_python(code: str, *arguments: object, pass_fds: tuple[int, ...] = ()) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(python_command(code, *arguments), stdin=pipe, stdout=pipe, text=True, pass_fds=pass_fds)


def run_python(code: str, *arguments: object) -> str:
    """Run the code and return its output. Raises AssertionError if it fails."""
    done = subprocess.run(python_command(code, *arguments), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_without_root_powers(code: str, *arguments: object) -> str:
    """Run the code as a process to which file modes apply, even if the tests run as root."""
    if os.geteuid() != 0:
        return run_python(code, *arguments)
    return run_python(_DROP_CAPABILITIES, "-c", code, *arguments)


def small_disk_command(disk: Path, size: str) -> list[str] | None:
    """Return the beginning of a command that runs its rest with a small file system mounted at `disk`.

    The mount is in a namespace of its own and ends with its last process. None if mounting is not permitted, not even in a user
    namespace.
    """
    disk.mkdir(parents=True, exist_ok=True)
    mount = ["sh", "-c", f'mount -t tmpfs -o size={size} none "$0" && exec "$@"', str(disk)]
    for unshare in (["unshare", "-m"], ["unshare", "-U", "-r", "-m"]):
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*unshare, *mount, "true"], capture_output=True, check=False).returncode == 0:
                return [*unshare, *mount]
    return None


def run_on_small_disk(code: str, disk: Path, *arguments: object) -> str:
    """Run the code with a file system of one megabyte mounted at `disk`, in its own mount namespace.

    If mounting is not permitted, not even in a user namespace, a limit on the file size replaces the small disk.
    """
    command = small_disk_command(disk, "1m")
    if command is not None:
        command += python_command(code, disk, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    return run_python(limit + code, disk, *arguments)


def child_pids(pid: int) -> list[int]:
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            pids += map(int, (task / "children").read_text().split())
        except FileNotFoundError:
            continue
    return pids


def has_socket(pid: int) -> bool:
    try:
        return any(os.readlink(entry).startswith("socket:") for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # a descriptor was closed meanwhile
        return False
