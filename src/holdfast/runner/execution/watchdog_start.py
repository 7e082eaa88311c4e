"""Start of a watchdog process with a socket to it and a pipe for the output of its driver."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from holdfast.driver_protocol.variables import NONCE
from holdfast.runner.execution.driver_output import DriverOutput


def start_watchdog_process(output_file: Path) -> "tuple[subprocess.Popen[bytes], int, socket.socket, DriverOutput]":
    """Start the process. Return it with its pidfd, the socket to it and the output of its driver."""
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as hand_over:
        mine, theirs = socket.socketpair()
        undo.callback(mine.close)
        hand_over.callback(theirs.close)
        reading, writing = os.pipe()
        hand_over.callback(os.close, writing)
        output = DriverOutput(reading, output_file)
        undo.callback(output.close)
        watchdog = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast.runner.watchdog", str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=writing,  # for the driver; the watchdog itself prints nothing, because a full pipe would block it
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env={key: value for key, value in os.environ.items() if key != NONCE},
            start_new_session=True,
        )
        undo.callback(watchdog.wait)
        undo.callback(watchdog.kill)
        watchdog_exit = os.pidfd_open(watchdog.pid)
        undo.pop_all()
    return watchdog, watchdog_exit, mine, output
