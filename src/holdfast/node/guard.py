"""The agent's tiny parent. `python -m holdfast.node.guard NODE_DIRECTORY AGENT_COMMAND…`

When the kernel says that the agent is dead, the guard closes the dead agent's ZooKeeper session, so that the cluster does not
have to wait for it to expire, and starts a new agent. An agent that is alive but silent for too long (its event loop hangs
while its library keeps the session alive) is killed first. Standard library only: many of these run, and none may ever fail.

The agent holds one end of a socket pair, whose number stands in HOLDFAST_GUARD_FD. It sends a byte now and then; the end of the
stream tells it that its guard is gone. The end of the stream tells the guard nothing: only waitpid says that a process is dead.
"""

import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from holdfast.zk.session import session_file

SILENCE_S_MIN = 30
"""An agent is given at least this long, and three session timeouts, to show a sign of life."""
STOP_S = 10
"""How long an agent that was asked to stop may take."""
HEALTHY_S = 10
"""An agent that lived this long is started again at once; one that did not waits, longer each time."""
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 5.0)
FINAL_EXIT = 78
"""The agent says that it can never work like this (EX_CONFIG). Starting it again would only repeat the sentence."""


class Guard:
    def __init__(self, directory: Path, command: list[str]) -> None:
        self._directory = directory
        self._command = command
        self._stop_asked = False
        self._farewells: set[int] = set()
        self._wakeup, wakeup_writer = socket.socketpair()
        for end in (self._wakeup, wakeup_writer):
            end.setblocking(False)
        self._wakeup_writer = wakeup_writer
        signal.set_wakeup_fd(wakeup_writer.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, self._signalled)

    def _signalled(self, number: int, _: object) -> None:
        if number != signal.SIGCHLD:
            self._stop_asked = True

    def run(self) -> int:
        if not self._lock():
            return FINAL_EXIT
        failures = 0
        while True:
            born_at = time.monotonic()
            status, joined = self._one_agent()
            if self._stop_asked:
                return 0
            if os.waitstatus_to_exitcode(status) == FINAL_EXIT:
                return FINAL_EXIT
            failures = 0 if joined or time.monotonic() - born_at >= HEALTHY_S else failures + 1
            pause_s = PAUSES_S[min(failures, len(PAUSES_S)) - 1] if failures else 0.0
            self._say("agent ended", status=_describe(status), restart_in_s=pause_s)
            if not self._rest(pause_s):
                return 0

    def _lock(self) -> bool:
        """One guard per directory: a second one would take the first one's agent for its own."""
        self._lock_file = open(self._directory / "guard.lock", "a+")  # noqa: SIM115
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock_file.seek(0)
            holder = self._lock_file.read().strip() or "?"
            self._say("cannot run", problem=f"another guard (pid {holder}) uses {self._directory}")
            return False
        self._lock_file.truncate(0)
        self._lock_file.write(str(os.getpid()))
        self._lock_file.flush()
        return True

    def _one_agent(self) -> tuple[int, bool]:
        """Start an agent, watch it until it is dead, see to its session. Its wait status, and whether it had a session."""
        mine, theirs = socket.socketpair()
        os.set_inheritable(theirs.fileno(), True)
        environment = {**os.environ, "HOLDFAST_GUARD_FD": str(theirs.fileno())}
        try:
            pid = os.posix_spawn(self._command[0], self._command, environment)
        except OSError as error:  # no memory, too many processes: it may pass
            self._say("agent not started", problem=str(error))
            mine.close()
            return 1 << 8, False
        finally:
            theirs.close()
        # What a person accepted was accepted for this agent, not for every one to come.
        self._command = [part for part in self._command if part != "--accept-zookeeper"]
        self._publish(pid)
        mine.setblocking(False)
        with mine:
            status = self._watch(pid, mine)
        self._publish(None)
        return status, self._bid_farewell(pid)

    def _watch(self, pid: int, signs_of_life: socket.socket) -> int:
        poll = select.poll()
        poll.register(signs_of_life, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        silent_s = 0
        stop_asked_at: float | None = None
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(1000)}
            _drain(self._wakeup)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
            self._reap_farewells()
            # Counted in our own wake-ups: if the whole machine slept, so did we, and that is no silence of the agent's.
            heard = signs_of_life.fileno() in ready and _drain(signs_of_life, poll)
            silent_s = 0 if heard else silent_s + (not ready)
            if self._stop_asked and stop_asked_at is None:
                stop_asked_at = time.monotonic()
                os.kill(pid, signal.SIGTERM)
            late = stop_asked_at is not None and time.monotonic() > stop_asked_at + STOP_S
            if late or silent_s > self._silence_s_max():
                self._say("agent killed", reason="it did not stop in time" if late else f"no sign of life for {silent_s} s")
                os.kill(pid, signal.SIGKILL)
                silent_s = 0

    def _silence_s_max(self) -> float:
        session = session_file.read(self._directory / session_file.NAME)
        return max(SILENCE_S_MIN, 3 * session.timeout_s if session else 0)

    def _bid_farewell(self, agent: int) -> bool:
        """Close the dead agent's session; False if it never had one.

        In a process of its own: a new agent does not have to wait, and a ZooKeeper that is away may take its time. Only if the
        session is that agent's: the file may be of another one, who lives.
        """
        session = session_file.read(self._directory / session_file.NAME)
        if session is None or session.agent_pid != agent:
            return False
        try:
            child = os.fork()
        except OSError as error:
            self._say("session left to expire", problem=str(error))
            return True
        if child:
            self._farewells.add(child)
            if self._stop_asked:
                self._wait_for_farewells()
            return True
        closed = False
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            # The file stays: by now it may be the next agent's. To close a session twice does no harm.
            closed = session.close()
            self._say("session closed" if closed else "session left to expire", session=hex(session.session_id))
        finally:
            os._exit(0 if closed else 1)

    def _reap_farewells(self) -> None:
        for child in list(self._farewells):
            if os.waitpid(child, os.WNOHANG)[0]:
                self._farewells.discard(child)

    def _wait_for_farewells(self) -> None:
        give_up_at = time.monotonic() + 2
        while self._farewells and time.monotonic() < give_up_at:
            select.select([self._wakeup], [], [], 0.1)
            self._reap_farewells()

    def _rest(self, pause_s: float) -> bool:
        """False if asked to stop meanwhile."""
        until = time.monotonic() + pause_s
        while not self._stop_asked and time.monotonic() < until:
            select.select([self._wakeup], [], [], max(0.0, until - time.monotonic()))
            _drain(self._wakeup)
        return not self._stop_asked

    def _publish(self, agent_pid: int | None) -> None:
        path = self._directory / "guard.json"
        temporary = path.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps({"guard_pid": os.getpid(), "agent_pid": agent_pid}))
            temporary.replace(path)
        except OSError as error:
            self._say("guard.json not written", problem=str(error))  # a full disk does not stop a guard

    def _say(self, event: str, **context: object) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1_000_000 % 1000:03d}Z"
        line = {"component": "guard", "event": event, **context, "time": stamp}
        try:
            sys.stderr.write(json.dumps(line) + "\n")
            sys.stderr.flush()
        except OSError:
            pass  # a full disk does not stop a guard


def _drain(source: socket.socket, poll: "select.poll | None" = None) -> bool:
    """Read what is there. At the end of the stream, stop listening to it."""
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


def _describe(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"killed by {known.get(-code, f'signal {-code}')}"


if __name__ == "__main__":
    sys.exit(Guard(Path(sys.argv[1]), sys.argv[2:]).run())
