"""Client of the watchdog process. It takes over the watchdog's work if the watchdog fails."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.driver_protocol.variables import NONCE
from holdfast.errors import Refused, Unavailable
from holdfast.runner.execution.watchdog_start import start_watchdog_process
from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.attempt_cgroup import CgroupIdentity
from holdfast.runner.watchdog.isolation import NAMESPACE
from holdfast.runner.watchdog.json_socket import MESSAGE_BYTES_MAX, JsonSocket, MalformedMessage
from holdfast.runner.watchdog.pid_namespace import NamespaceIdentity
from holdfast.runner.watchdog.proc_filesystem import Process, read_process

READY_TIMEOUT_S = 30.0
"""Time limit for the start of a watchdog, even on a busy machine."""
KILL_TIMEOUT_S = 3.0
"""Time limit for the watchdog to kill a tree; after that the client kills it."""
OVERDUE_GRACE_S = 1.0
"""Time after the deadline after which a watchdog that has not killed the tree counts as failed."""


class WatchdogClient:
    """One watchdog and the driver that it starts.

    `driver_exited` has the driver's wait status (that of SIGKILL if the watchdog was lost). It stays pending if no driver was
    started. `tree_gone` is done when no process of the tree is left, and it always completes. Both may be cancelled safely.
    """

    def __init__(self, nonce: str, output: Path) -> None:
        loop = asyncio.get_running_loop()
        self._nonce = nonce
        self._watchdog, self._watchdog_exit, self._socket, self._output = start_watchdog_process(output)
        self._ready: asyncio.Future[None] = loop.create_future()
        self._start_reply: asyncio.Future[int] | None = None
        self._driver_exited: asyncio.Future[int] = loop.create_future()
        self._tree_gone: asyncio.Future[None] = loop.create_future()
        self._watchdog_dead: asyncio.Future[None] = loop.create_future()
        self.driver_exited = asyncio.shield(self._driver_exited)
        self.tree_gone = asyncio.shield(self._tree_gone)
        self.watchdog_lost = False
        """True if the watchdog has failed and this client kills the tree itself."""
        self.kill_reason = ""
        """Reason for killing the tree, or an empty string."""
        self.isolation = ""
        """Isolation level (see `runner.watchdog.isolation`); empty until the watchdog is ready."""
        self.isolation_problem = ""
        """Reason for an isolation level below NAMESPACE."""
        self.watchdog_process: Process | None = None
        self.isolated: NamespaceIdentity | CgroupIdentity | None = None
        """Namespace or cgroup of the driver; None at the level SCAN."""
        self._started = False
        self._deadline = 0.0
        self._overdue_timer: asyncio.TimerHandle | None = None
        self._takeover: asyncio.Task[None] | None = None
        self._channel = JsonSocket(self._socket.fileno())
        loop.add_reader(self._socket, self._receive)
        # No asyncio child watcher: its behaviour depends on other watchers in this process.
        loop.add_reader(self._watchdog_exit, self._watchdog_ended)

    @classmethod
    async def start_watchdog(cls, *, nonce: str, output: Path, deadline: float) -> "WatchdogClient":
        """Start a watchdog in a new session, because it must outlive a dead runner. Raises Unavailable."""
        try:
            client = cls(nonce, output)
        except (OSError, RuntimeError) as error:  # too many processes, descriptors or threads
            raise Unavailable(f"cannot start a watchdog: {getattr(error, 'strerror', None) or error}") from error
        try:
            client.set_deadline(deadline)
            first = {client._ready, client._watchdog_dead}
            await asyncio.wait(first, timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if not client._ready.done():
                raise Unavailable("the watchdog did not start")
        except BaseException:
            await client.close()
            raise
        return client

    async def start_driver(self, command: Sequence[str], environment: Mapping[str, str], directory: Path) -> int:
        """Start the driver and return its pid. Raises Refused. After a cancellation the driver may be running."""
        if self._start_reply is not None:
            raise Refused("a driver has been started already")
        request = {
            "command": list(command),
            "environment": {**environment, NONCE: self._nonce},
            "directory": str(directory),
        }
        if len(json.dumps(request)) > MESSAGE_BYTES_MAX // 2:
            raise Refused("the driver's arguments and environment are too large")
        self._start_reply = asyncio.get_running_loop().create_future()
        if self._takeover is not None or self._tree_gone.done():
            self._start_reply.set_exception(self._late_start_error())
        self._send(start=request)
        return await self._start_reply

    def set_deadline(self, deadline: float) -> None:
        """Replace the deadline (seconds of CLOCK_BOOTTIME) at which the watchdog kills the tree; it may also be earlier."""
        self._deadline = deadline
        self._send(deadline=deadline)
        self._watch_deadline()

    def signal_driver(self, number: int) -> None:
        """Send a signal to the driver alone, if it is alive."""
        self._send(signal=int(number))

    async def kill_tree(self) -> None:
        """Kill the tree, and return when none of its processes is left."""
        if not self._tree_gone.done():
            self._send(kill=True)
            await asyncio.wait({self._tree_gone}, timeout=KILL_TIMEOUT_S)
            if not self._tree_gone.done():
                self._take_over()
        await asyncio.shield(self._tree_gone)

    def output_tail(self) -> str:
        """Return the end of the output of the tree."""
        return self._output.tail()

    async def close(self) -> None:
        """Kill the tree and the watchdog, and release all resources."""
        await self.kill_tree()
        if not self._watchdog_dead.done():
            await asyncio.wait({self._watchdog_dead}, timeout=KILL_TIMEOUT_S)
        if not self._watchdog_dead.done():
            self._watchdog.kill()
            await asyncio.shield(self._watchdog_dead)
        if self._overdue_timer is not None:
            self._overdue_timer.cancel()
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            asyncio.get_running_loop().remove_writer(self._socket)
            self._socket.close()
        await asyncio.to_thread(self._output.close)

    def _send(self, **message: object) -> None:
        if self._socket.fileno() >= 0:
            self._channel.send(**message)
            self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        if self._channel.flush():
            loop.remove_writer(self._socket)
        else:
            loop.add_writer(self._socket, self._flush)

    def _receive(self) -> None:
        try:
            for message in self._channel.receive():
                self._handle_message(message)
        except MalformedMessage:
            self._take_over()
        if self._channel.closed:
            # A closed socket does not prove that the watchdog is dead; its pidfd does.
            asyncio.get_running_loop().remove_reader(self._socket)

    def _handle_message(self, message: dict[str, object]) -> None:
        answer = self._start_reply if self._start_reply is not None and not self._start_reply.done() else None
        if "ready" in message and not self._ready.done():
            self._read_isolation(message)
            self._ready.set_result(None)
            self._watch_deadline()
        if "started" in message:
            self._started = True
            if answer is not None:
                answer.set_result(int(str(message["started"])))
        if "refused" in message and answer is not None:
            answer.set_exception(Refused(str(message["refused"])))
            self._start_reply = None
        if "ending" in message:
            self.kill_reason = str(message["ending"])
        if "exited" in message and not self._driver_exited.done():
            self._driver_exited.set_result(int(str(message["exited"])))
        if "empty" in message and self._takeover is None:
            if self.isolation == NAMESPACE and os.geteuid() != 0:
                # In its user namespace the watchdog cannot read the environments of processes outside.
                self._takeover = asyncio.get_running_loop().create_task(self._kill_rest())
            else:
                self._complete_futures()

    def _read_isolation(self, message: dict[str, object]) -> None:
        self.isolation = str(message.get("isolation", ""))
        self.isolation_problem = str(message.get("problem", ""))
        self.watchdog_process = read_process(self._watchdog.pid)
        if isinstance(init := message.get("init"), int):
            self.isolated = NamespaceIdentity.read(init)
        if isinstance(cgroup := message.get("cgroup"), list):
            path, number = cgroup
            self.isolated = CgroupIdentity(str(path), int(number))

    def _complete_futures(self) -> None:
        """Complete all futures: no process of the tree is left, and none will be started."""
        if self._overdue_timer is not None:
            self._overdue_timer.cancel()
        if self._start_reply is not None and not self._start_reply.done():
            self._start_reply.set_exception(self._late_start_error())
        if self._started and not self._driver_exited.done():
            self._driver_exited.set_result(int(signal.SIGKILL))
        if not self._tree_gone.done():
            self._tree_gone.set_result(None)

    def _late_start_error(self) -> Refused:
        return Refused(f"the driver could not be started: {self.kill_reason}")

    def _watchdog_ended(self) -> None:
        """Handle the death of the watchdog, which the pidfd has shown. Its last messages may still be in the socket."""
        asyncio.get_running_loop().remove_reader(self._watchdog_exit)
        os.close(self._watchdog_exit)
        self._watchdog.wait()
        self._receive()
        if not self._watchdog_dead.done():
            self._watchdog_dead.set_result(None)
        if not self._tree_gone.done():
            self._take_over()

    def _watch_deadline(self) -> None:
        if self._overdue_timer is not None:
            self._overdue_timer.cancel()
        if self._ready.done() and not self._tree_gone.done():
            wait_s = max(0.0, self._deadline - time.clock_gettime(time.CLOCK_BOOTTIME)) + OVERDUE_GRACE_S
            self._overdue_timer = asyncio.get_running_loop().call_later(wait_s, self._take_over)

    def _take_over(self) -> None:
        """Kill the tree without the watchdog, which is dead or paused or has sent a malformed message."""
        if self._takeover is None and not self._tree_gone.done():
            self.watchdog_lost = True
            self.kill_reason = self.kill_reason or "the watchdog was lost"
            self._takeover = asyncio.get_running_loop().create_task(self._kill_without_watchdog())

    async def _kill_without_watchdog(self) -> None:
        # Kill the watchdog first, so that it starts nothing any more; the kernel kills the driver and the namespace with it.
        # The killer of a cgroup may be dead, so `_kill_rest` kills the cgroup too.
        self._watchdog.kill()
        await asyncio.shield(self._watchdog_dead)
        await self._kill_rest()

    async def _kill_rest(self) -> None:
        """Kill the processes in the namespace or cgroup and all marked processes, until none is left."""
        while True:
            with contextlib.suppress(OSError):  # no descriptors or no memory: retry
                if await asyncio.to_thread(self._kill_rest_once):
                    break
            await asyncio.sleep(0.01)
        self._complete_futures()

    def _kill_rest_once(self) -> bool:
        """Return True if no process is left."""
        if self.isolated is not None and not self.isolated.kill():
            return False
        return not process_tree.kill_tree(self._nonce, timeout_s=1)
