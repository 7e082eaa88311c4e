"""Linux calls that Python 3.11 does not offer. Standard library only: the watchdog imports this."""

import contextlib
import ctypes
import errno
import os
import select
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_SLAVE_RECURSIVE = 1 << 19 | 1 << 14

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of all orphans among its descendants, except those in another PID namespace."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "PR_SET_CHILD_SUBREAPER")


def die_with_parent(pipe_end: int) -> None:
    """Let the kernel kill this process when its parent ends. Only the parent has the other end of the pipe."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "PR_SET_PDEATHSIG")
    # A parent that ended before the call sends no signal, but the kernel has closed its descriptors before. The pid of the
    # parent would prove nothing: in another PID namespace it is always 0.
    poll = select.poll()
    poll.register(pipe_end, 0)  # reports only that the other end is closed
    if poll.poll(0):
        os._exit(127)


def set_process_name(name: bytes) -> None:
    _libc.prctl(_PR_SET_NAME, name, 0, 0, 0)


def close_descriptors_above(last: int) -> None:
    """Close all open descriptors with a number above `last`."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > last:
            with contextlib.suppress(OSError):  # the descriptor of the list itself is already closed
                os.close(int(name))


def unshare(flags: int) -> None:
    """Move this process, or for CLONE_NEWPID its later children, to new namespaces. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def mount_own_proc() -> None:
    """Mount a /proc of this PID namespace that only this process and its descendants see. Raises OSError.

    Mounts of the machine still appear in the new mount namespace, if they are shared.
    """
    unshare(CLONE_NEWNS)
    for mount_point in (b"/", b"/proc"):
        result = _libc.mount(b"none", mount_point, None, ctypes.c_ulong(_MS_SLAVE_RECURSIVE), None)
        # In a chroot, the root directory may be no mount point. The mount of the machine's /proc is then enough.
        if result == 0 or ctypes.get_errno() != errno.EINVAL:
            break
    _check(result, f"mount {os.fsdecode(mount_point)}")
    _check(_libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC), None), "mount /proc")


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
