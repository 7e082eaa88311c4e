"""Guard process: starts the agent, replaces it when it dies or hangs, and closes the session of a dead agent."""

import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

from holdfast.node.guard.agent_silence import POLL_S, AgentSilence
from holdfast.zk.session import session_file

GUARD_FD_VARIABLE = "HOLDFAST_GUARD_FD"
"""Environment variable with the agent's descriptor of the socket pair."""
GUARD_FILE = "guard.json"
"""Pids of the guard and its agent."""
SILENCE_LIMIT_S_MIN = 30
"""An agent is killed after this silence (see `agent_silence`), or after three session timeouts if that is longer."""
STOP_TIMEOUT_S = 10
"""Grace period between SIGTERM and SIGKILL."""
HEALTHY_S = 10
"""An agent that ran this long is restarted at once; after a shorter run the delay grows with each failure."""
RESTART_DELAYS_S = (0.0, 0.5, 1.0, 2.0, 5.0)
CANNOT_RUN_EXIT_CODE = 78
"""Exit code of an agent whose configuration cannot work (EX_CONFIG). The guard does not restart it."""


class Guard:
    def __init__(self, directory: Path, command: list[str]) -> None:
        self._directory = directory
        self._command = command
        self._stop_requested = False
        self._session_closers: set[int] = set()
        self._wakeup, wakeup_writer = socket.socketpair()
        for end in (self._wakeup, wakeup_writer):
            end.setblocking(False)
        self._wakeup_writer = wakeup_writer
        signal.set_wakeup_fd(wakeup_writer.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: object) -> None:
        if number != signal.SIGCHLD:
            self._stop_requested = True

    def run(self) -> int:
        if not self._lock():
            return CANNOT_RUN_EXIT_CODE
        failures = 0
        while True:
            started_at = time.monotonic()
            status, joined = self._run_agent()
            if self._stop_requested:
                return 0
            if os.waitstatus_to_exitcode(status) == CANNOT_RUN_EXIT_CODE:
                return CANNOT_RUN_EXIT_CODE
            failures = 0 if joined or time.monotonic() - started_at >= HEALTHY_S else failures + 1
            pause_s = RESTART_DELAYS_S[min(failures, len(RESTART_DELAYS_S)) - 1] if failures else 0.0
            self._log("agent ended", status=_describe_status(status), restart_in_s=pause_s)
            if not self._pause(pause_s):
                return 0

    def _lock(self) -> bool:
        """Lock the directory: a second guard would mistake the first guard's agent for its own."""
        self._lock_file = open(self._directory / "guard.lock", "a+")  # noqa: SIM115 -- open until the process ends
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock_file.seek(0)
            holder = self._lock_file.read().strip() or "?"
            self._log("cannot run", problem=f"another guard (pid {holder}) uses {self._directory}")
            return False
        self._lock_file.truncate(0)
        self._lock_file.write(str(os.getpid()))
        self._lock_file.flush()
        return True

    def _run_agent(self) -> tuple[int, bool]:
        """Start an agent, wait until it is dead and close its session. Return its wait status and True if it had a session."""
        guard_end, agent_end = socket.socketpair()
        os.set_inheritable(agent_end.fileno(), True)
        environment = {**os.environ, GUARD_FD_VARIABLE: str(agent_end.fileno())}
        try:
            pid = os.posix_spawn(self._command[0], self._command, environment)
        except OSError as error:  # out of memory or processes: may be temporary
            self._log("agent not started", problem=str(error))
            guard_end.close()
            return 1 << 8, False
        finally:
            agent_end.close()
        # The operator's acceptance is valid for this agent only, not for later ones.
        self._command = [part for part in self._command if part != "--accept-zookeeper"]
        self._publish(pid)
        guard_end.setblocking(False)
        with guard_end:
            status = self._wait_for_exit(pid, guard_end)
        self._publish(None)
        return status, self._close_agent_session(pid)

    def _wait_for_exit(self, pid: int, agent_heartbeats: socket.socket) -> int:
        poll = select.poll()
        poll.register(agent_heartbeats, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        silence = AgentSilence(pid)
        stop_requested_at: float | None = None
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(POLL_S * 1000)}
            _read_pending(self._wakeup)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
            self._reap_session_closers()
            if agent_heartbeats.fileno() in ready and _read_pending(agent_heartbeats, poll):
                silence.on_heartbeat()
            elif not ready:
                silence.on_silent_poll()
            if self._stop_requested and stop_requested_at is None:
                stop_requested_at = time.monotonic()
                os.kill(pid, signal.SIGTERM)
            late = stop_requested_at is not None and time.monotonic() > stop_requested_at + STOP_TIMEOUT_S
            if late or silence.exceeds(self._silence_limit_s()):
                reason = "it did not stop in time" if late else f"no sign of life for {silence.duration_s:.0f} s"
                self._log("agent killed", reason=reason)
                os.kill(pid, signal.SIGKILL)
                silence.reset()

    def _silence_limit_s(self) -> float:
        session = session_file.read(self._directory / session_file.FILE_NAME)
        return max(SILENCE_LIMIT_S_MIN, 3 * session.timeout_s if session else 0)

    def _close_agent_session(self, agent: int) -> bool:
        """Close the dead agent's session in a child process. Return False if the agent had no session.

        The child process lets the next agent start at once even if ZooKeeper is unreachable. The session file is used only if
        this agent wrote it: it may belong to another agent that is alive.
        """
        session = session_file.read(self._directory / session_file.FILE_NAME)
        if session is None or session.agent_pid != agent:
            return False
        try:
            child = os.fork()
        except OSError as error:
            self._log("session left to expire", problem=str(error))
            return True
        if child:
            self._session_closers.add(child)
            if self._stop_requested:
                self._wait_for_session_closers()
            return True
        self._close_session_and_exit(session)

    def _close_session_and_exit(self, session: session_file.StoredSession) -> NoReturn:
        """Close the session and end this child process."""
        closed = False
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            # Keep the file: the next agent may have replaced it. Closing a session twice is harmless.
            closed = session.close()
            self._log("session closed" if closed else "session left to expire", session=hex(session.session_id))
        finally:
            os._exit(0 if closed else 1)

    def _reap_session_closers(self) -> None:
        for child in list(self._session_closers):
            if os.waitpid(child, os.WNOHANG)[0]:
                self._session_closers.discard(child)

    def _wait_for_session_closers(self) -> None:
        give_up_at = time.monotonic() + 2
        while self._session_closers and time.monotonic() < give_up_at:
            select.select([self._wakeup], [], [], 0.1)
            self._reap_session_closers()

    def _pause(self, pause_s: float) -> bool:
        """Wait `pause_s` seconds. Return False if the guard was asked to stop."""
        until = time.monotonic() + pause_s
        while not self._stop_requested and time.monotonic() < until:
            select.select([self._wakeup], [], [], max(0.0, until - time.monotonic()))
            _read_pending(self._wakeup)
        return not self._stop_requested

    def _publish(self, agent_pid: int | None) -> None:
        path = self._directory / GUARD_FILE
        temporary = path.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps({"guard_pid": os.getpid(), "agent_pid": agent_pid}))
            temporary.replace(path)
        except OSError as error:
            self._log("guard.json not written", problem=str(error))  # the guard continues on a full disk

    def _log(self, event: str, **context: object) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1_000_000 % 1000:03d}Z"
        line = {"component": "guard", "event": event, **context, "time": stamp}
        try:
            sys.stderr.write(json.dumps(line) + "\n")
            sys.stderr.flush()
        except OSError:
            pass  # the guard continues on a full disk


def _read_pending(source: socket.socket, poll: "select.poll | None" = None) -> bool:
    """Read all pending bytes. Return False if there are none. Unregister the socket at the end of the stream."""
    try:
        while True:
            data = source.recv(4096)
            if not data:
                if poll is not None:
                    poll.unregister(source)
                return False
            if len(data) < 4096:
                return True
    except (BlockingIOError, ConnectionResetError):
        return False


def _describe_status(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"killed by {names.get(-code, f'signal {-code}')}"
