"""A driver under supervision: what a runner does with its watchdog, and for it if the watchdog fails."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import Refused, Unavailable
from holdfast.runner.driver_output import Output
from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.json_socket import LINE_BYTES_MAX, Garbage, Line

READY_S = 30.0
"""How long a watchdog may take to start, on a machine that is busy."""
IMPATIENCE_S = 3.0
"""How long a watchdog may take to end a tree before the runner does it itself."""
OVERDUE_S = 1.0
"""How long after the deadline a watchdog that has not ended the tree is taken for one that never will."""


class Supervision:
    """One watchdog, and the driver that it starts.

    `exited` gives the driver's wait status (SIGKILL's, if the watchdog was lost), and stays open if none was ever started.
    `emptied` is done when nothing of the tree is left, which is certain, and it always comes. To cancel one harms nobody.
    """

    def __init__(self, nonce: str, output: Path) -> None:
        loop = asyncio.get_running_loop()
        self._nonce = nonce
        self._watchdog, self._watchdog_exit, self._socket, self._output = _start_watchdog(output)
        self._ready: asyncio.Future[None] = loop.create_future()
        self._answer: asyncio.Future[int] | None = None
        self._exited: asyncio.Future[int] = loop.create_future()
        self._emptied: asyncio.Future[None] = loop.create_future()
        self._watchdog_dead: asyncio.Future[None] = loop.create_future()
        self.exited = asyncio.shield(self._exited)
        self.emptied = asyncio.shield(self._emptied)
        self.lost = False
        """The watchdog has failed, and the runner has killed the tree itself, or is about to."""
        self.ending = ""
        """Why the tree was killed, once it is: a sentence without its full stop."""
        self._started = False
        self._deadline = 0.0
        self._overdue: asyncio.TimerHandle | None = None
        self._takeover: asyncio.Task[None] | None = None
        self._line = Line(self._socket.fileno())
        loop.add_reader(self._socket, self._listen)
        # Not by an asyncio child watcher: what those do depends on who else has set one up, and for which children.
        loop.add_reader(self._watchdog_exit, self._watchdog_ended)

    @classmethod
    async def begin(cls, *, nonce: str, output: Path, deadline: float) -> "Supervision":
        """Start the watchdog. Raises Unavailable. It is tied to nothing: it must outlive a runner that dies."""
        try:
            supervision = cls(nonce, output)
        except (OSError, RuntimeError) as error:  # no processes, no descriptors, no threads
            raise Unavailable(f"cannot start a watchdog: {getattr(error, 'strerror', None) or error}") from error
        try:
            supervision.renew(deadline)
            first = {supervision._ready, supervision._watchdog_dead}
            await asyncio.wait(first, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
            if not supervision._ready.done():
                raise Unavailable("the watchdog did not start")
        except BaseException:
            await supervision.close()
            raise
        return supervision

    async def start(self, command: Sequence[str], environment: Mapping[str, str], directory: Path) -> int:
        """The driver's pid, once it runs the command. Raises Refused. If it is cancelled, the driver may run all the same."""
        if self._answer is not None:
            raise Refused("a driver has been started already")
        order = {
            "command": list(command),
            "environment": {**environment, process_tree.VARIABLE: self._nonce},
            "directory": str(directory),
        }
        if len(json.dumps(order)) > LINE_BYTES_MAX // 2:
            raise Refused("the driver's arguments and environment are too long")
        self._answer = asyncio.get_running_loop().create_future()
        if self._takeover is not None or self._emptied.done():
            self._answer.set_exception(self._too_late())
        self._say(start=order)
        return await self._answer

    def renew(self, deadline: float) -> None:
        """The tree may live until then, by CLOCK_BOOTTIME; whether that is later or earlier than what was said before."""
        self._deadline = deadline
        self._say(deadline=deadline)
        self._watch_deadline()

    def signal(self, number: int) -> None:
        """To the driver alone, if it lives."""
        self._say(signal=int(number))

    async def kill(self) -> None:
        """Returns when nothing of the tree is left."""
        if not self._emptied.done():
            self._say(kill=True)
            await asyncio.wait({self._emptied}, timeout=IMPATIENCE_S)
            if not self._emptied.done():
                self._take_over()
        await asyncio.shield(self._emptied)

    def tail(self) -> str:
        """The end of what the tree has printed."""
        return self._output.tail()

    async def close(self) -> None:
        """Kill what is left, and let go of everything."""
        await self.kill()
        if not self._watchdog_dead.done():
            await asyncio.wait({self._watchdog_dead}, timeout=IMPATIENCE_S)
        if not self._watchdog_dead.done():
            self._watchdog.kill()
            await asyncio.shield(self._watchdog_dead)
        if self._overdue is not None:
            self._overdue.cancel()
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            asyncio.get_running_loop().remove_writer(self._socket)
            self._socket.close()
        await asyncio.to_thread(self._output.close)

    def _say(self, **message: object) -> None:
        if self._socket.fileno() >= 0:
            self._line.say(**message)
            self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        if self._line.flush():
            loop.remove_writer(self._socket)
        else:
            loop.add_writer(self._socket, self._flush)

    def _listen(self) -> None:
        try:
            for message in self._line.read():
                self._hear(message)
        except Garbage:
            self._take_over()
        if self._line.closed:
            # Says nothing by itself: what has become of the watchdog, the kernel will tell.
            asyncio.get_running_loop().remove_reader(self._socket)

    def _hear(self, message: dict[str, object]) -> None:
        answer = self._answer if self._answer is not None and not self._answer.done() else None
        if "ready" in message and not self._ready.done():
            self._ready.set_result(None)
            self._watch_deadline()
        if "started" in message:
            self._started = True
            if answer is not None:
                answer.set_result(int(str(message["started"])))
        if "refused" in message and answer is not None:
            answer.set_exception(Refused(str(message["refused"])))
            self._answer = None
        if "ending" in message:
            self.ending = str(message["ending"])
        if "exited" in message and not self._exited.done():
            self._exited.set_result(int(str(message["exited"])))
        if "empty" in message:
            self._settle()

    def _settle(self) -> None:
        """Nothing of the tree is left, and nothing will come."""
        if self._overdue is not None:
            self._overdue.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._too_late())
        if self._started and not self._exited.done():
            self._exited.set_result(int(signal.SIGKILL))
        if not self._emptied.done():
            self._emptied.set_result(None)

    def _too_late(self) -> Refused:
        return Refused(f"the driver could not be started: {self.ending}")

    def _watchdog_ended(self) -> None:
        """By kernel evidence. Its last words may still be on the line."""
        asyncio.get_running_loop().remove_reader(self._watchdog_exit)
        os.close(self._watchdog_exit)
        self._watchdog.wait()
        self._listen()
        if not self._watchdog_dead.done():
            self._watchdog_dead.set_result(None)
        if not self._emptied.done():
            self._take_over()

    def _watch_deadline(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
        if self._ready.done() and not self._emptied.done():
            wait_s = max(0.0, self._deadline - time.clock_gettime(time.CLOCK_BOOTTIME)) + OVERDUE_S
            self._overdue = asyncio.get_running_loop().call_later(wait_s, self._take_over)

    def _take_over(self) -> None:
        """The watchdog is dead, paused, or talks nonsense."""
        if self._takeover is None and not self._emptied.done():
            self.lost = True
            self.ending = self.ending or "the watchdog was lost"
            self._takeover = asyncio.get_running_loop().create_task(self._kill_without_watchdog())

    async def _kill_without_watchdog(self) -> None:
        # First the watchdog, so that it starts nothing any more; the kernel kills the driver with it.
        self._watchdog.kill()
        await asyncio.shield(self._watchdog_dead)
        while True:
            with contextlib.suppress(OSError):  # no descriptors, no memory: try again
                if not await asyncio.to_thread(process_tree.kill, self._nonce, within_s=1):
                    break
            await asyncio.sleep(0.05)
        self._settle()


def _start_watchdog(path: Path) -> "tuple[subprocess.Popen[bytes], int, socket.socket, Output]":
    """The process, a pidfd of it, the line to it, and what its driver will print."""
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as hand_over:
        mine, theirs = socket.socketpair()
        undo.callback(mine.close)
        hand_over.callback(theirs.close)
        reading, writing = os.pipe()
        hand_over.callback(os.close, writing)
        output = Output(reading, path)
        undo.callback(output.close)
        watchdog = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast.runner.watchdog", str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=writing,  # for the driver; the watchdog itself says nothing, and nowhere that could block it
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env={key: value for key, value in os.environ.items() if key != process_tree.VARIABLE},
            start_new_session=True,
        )
        undo.callback(watchdog.wait)
        undo.callback(watchdog.kill)
        watchdog_exit = os.pidfd_open(watchdog.pid)
        undo.pop_all()
    return watchdog, watchdog_exit, mine, output
