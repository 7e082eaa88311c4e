"""Watchdog process: `python -P -m holdfast.runner.watchdog DESCRIPTOR RUNNER_PID`

The watchdog is the driver's parent and knows the driver's deadline. It kills the tree when the deadline passes, when the runner
dies, or on request, until no process is left. After the deadline it starts nothing. So neither a paused nor a dead runner
leaves a driver behind.

The kernel enforces the deadline even if the watchdog is paused: a timer kills the watchdog KILL_GRACE_S later. If the watchdog
is killed, the kernel kills the driver with it. In a PID namespace (see `pid_namespace`) the kernel kills all descendants of the
driver too. In a cgroup (see `attempt_cgroup`) another process kills them. Without both, the runner or the agent kills them.

It uses only the standard library and one thread, and it blocks only in `poll`: one watchdog runs per attempt, and it must never
hang. The deadline is a timer on CLOCK_BOOTTIME, which includes the time in which the machine is suspended. The timer expires as
soon as the machine resumes, whereas the timeout of a poll would continue to run.

Messages are lines of JSON on the socket with the given descriptor. From the runner:
  {"deadline": seconds of CLOCK_BOOTTIME}   replaces the last deadline, also by an earlier one
  {"start": {"command": […], "environment": {…}, "directory": "…"}}   the environment contains the nonce
  {"signal": number}   for the driver alone
  {"kill": true}
To the runner: {"ready": own pid, "isolation": level, "init": pid of the namespace's init or null, "cgroup": [directory,
inode] or null, "problem": reason for a lower level}, {"started": pid} or {"refused": reason}, {"ending": reason for killing the
tree}, {"exited": the driver's wait status}, {"empty": true} when no process of the tree is left. Then the watchdog exits.
"""

import contextlib
import math
import os
import select
import signal
import sys
import time

from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.attempt_cgroup import AttemptCgroup
from holdfast.runner.watchdog.boottime_timer import BoottimeTimer, KillTimer, boottime
from holdfast.runner.watchdog.isolation import isolate_driver
from holdfast.runner.watchdog.json_socket import DEADLINE_PASSED, JsonSocket, MalformedMessage
from holdfast.runner.watchdog.linux_calls import adopt_orphans
from holdfast.runner.watchdog.pid_namespace import PidNamespace
from holdfast.runner.watchdog.spawn import SpawnRequest, spawn_driver

GRACE_S = 2.0
"""Time for which the rest of a tree may outlive its driver: Spark's JVM exits by itself after its Python."""
KILL_GRACE_S = 0.3
"""Time after the deadline after which the kernel kills a watchdog that has not killed the tree. Shorter than
`Timing.kill_s`."""
DEADLINE_DISTANCE_MAX_S = 10 * 365 * 86400
"""Upper limit of a deadline's distance. Keeps the timer's arithmetic within its fields."""

_IGNORED_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""Ignored signals. Those sent to the whole service or terminal are handled by the runner."""


class Watchdog:
    def __init__(self, channel: JsonSocket, runner: int, isolation: PidNamespace | AttemptCgroup | None) -> None:
        self._socket = channel
        self._runner = runner
        """Pidfd of the runner. The socket is no proof: it may be closed while the runner is alive, or open when it is dead."""
        self._isolation = isolation
        """None at the level SCAN. Its helper is a child too: the init of the namespace, or the killer of the cgroup."""
        self._timer = BoottimeTimer()
        self._kill_timer = KillTimer()
        self._poll = select.poll()
        for descriptor in (channel.descriptor, runner, self._timer.descriptor):
            self._poll.register(descriptor, select.POLLIN)
        if isolation is not None:
            self._poll.register(isolation.helper_exit, select.POLLIN)
        self._deadline: float | None = None
        self._nonce = ""
        self._driver: int | None = None
        """Pid of the driver until `waitpid` has returned it; the pid cannot be reused before."""
        self._driver_exit = -1
        self._start_report = -1
        """Pipe on which the child reports why it cannot execute the command; -1 after the exec."""
        self._grace_until: float | None = None
        self._kill_reason = ""

    def run(self, level: str, problem: str) -> None:
        """Serve the runner until no process of the tree is left. `problem` is the reason for a lower level of isolation."""
        identity: dict[str, object] = {"init": None, "cgroup": None}
        if self._isolation is not None:
            identity |= self._isolation.describe()
        self._socket.send(ready=os.getpid(), isolation=level, problem=problem, **identity)
        try:
            while not self._kill_reason:
                self._turn()
        finally:
            self._kill_tree()

    def _turn(self) -> None:
        ready = {descriptor for descriptor, _ in self._poll.poll(1000 if self._grace_until is None else 20)}
        no_child_left = self._reap()
        if self._grace_until is not None and self._isolation is not None:
            self._isolation.release_helper()
        if self._start_report in ready:
            self._read_start_report()
        if self._runner in ready:
            self._kill_reason = "the runner is dead"
            return
        # Read the clock before the socket: a new deadline may have arrived before the old one passed. A pause in between only
        # delays the decision to the next turn.
        clock = boottime()
        try:
            for message in self._socket.receive():
                self._handle_message(message)
        except MalformedMessage:
            self._kill_reason = "the runner sent a malformed message"
        self._socket.flush()
        if self._kill_reason:
            return
        if self._socket.closed:
            self._kill_reason = "the runner has closed the socket"
        elif self._deadline is not None and clock >= self._deadline:
            self._kill_reason = DEADLINE_PASSED
        elif self._grace_until is not None and (no_child_left or time.monotonic() > self._grace_until):
            self._kill_reason = "the driver has ended"

    def _handle_message(self, message: dict[str, object]) -> None:
        if "deadline" in message:
            deadline = message["deadline"]
            if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not math.isfinite(deadline):
                raise MalformedMessage
            self._deadline = min(float(deadline), boottime() + DEADLINE_DISTANCE_MAX_S)
            self._kill_timer.expire_at(max(self._deadline, boottime()) + KILL_GRACE_S)
            self._timer.expire_at(self._deadline)
        if "kill" in message:
            self._kill_reason = "the runner requested it"
        if "signal" in message and self._driver is not None:
            number = message["signal"]
            if isinstance(number, int) and number in signal.valid_signals():
                os.kill(self._driver, number)
        if "start" in message and not self._kill_reason:
            request = SpawnRequest(message["start"])
            try:
                self._start(request)
            except OSError as error:  # too many processes or descriptors
                self._socket.send(refused=f"cannot start a process: {error.strerror}")

    def _start(self, request: SpawnRequest) -> None:
        if self._driver is not None or self._grace_until is not None:
            self._socket.send(refused="a driver has been started already")
            return
        if self._deadline is None or boottime() >= self._deadline:
            self._socket.send(refused="the deadline had passed before the driver was started")
            return
        prepare = self._isolation.prepare_driver if self._isolation is not None else None
        pid, report = spawn_driver(request, self._deadline, prepare=prepare)
        self._nonce, self._driver, self._start_report = request.nonce, pid, report
        self._poll.register(report, select.POLLIN)
        with contextlib.suppress(OSError):  # without it, the driver's end is noticed up to a second later
            self._driver_exit = os.pidfd_open(pid)
            self._poll.register(self._driver_exit, select.POLLIN)

    def _read_start_report(self) -> None:
        """Read the start report: exec closes the pipe without data; otherwise it contains the reason of the failure."""
        problem = os.read(self._start_report, 4096).decode(errors="replace")
        self._poll.unregister(self._start_report)
        os.close(self._start_report)
        self._start_report = -1
        if not problem:
            self._socket.send(started=self._driver)
            return
        assert self._driver is not None
        _kill(self._driver)  # it is about to exit anyway
        os.waitpid(self._driver, 0)
        self._clear_driver()
        self._socket.send(refused=problem)

    def _reap(self) -> bool:
        """Reap all children that have ended. Return True if no child is left, and thus no descendant at all.

        That is certain even for processes without the mark: a subreaper adopts all orphans, and the init of a namespace ends
        only after all other processes in it.
        """
        try:
            while True:
                if self._start_report >= 0 and self._driver is not None and _has_ended(self._driver):
                    self._read_start_report()
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                if pid == self._driver:
                    self._clear_driver()
                    self._grace_until = time.monotonic() + GRACE_S
                    self._socket.send(exited=status)
                elif self._isolation is not None and pid == self._isolation.helper:
                    self._poll.unregister(self._isolation.helper_exit)
                    self._isolation.helper = None
        except ChildProcessError:
            return True

    def _clear_driver(self) -> None:
        if self._driver_exit >= 0:
            self._poll.unregister(self._driver_exit)
            os.close(self._driver_exit)
        self._driver, self._driver_exit = None, -1

    def _kill_tree(self) -> None:
        """Kill the tree until no process is left, however long that takes."""
        self._socket.send(ending=self._kill_reason or "the watchdog has failed")
        while True:
            try:
                self._kill_descendants()
                # Normally all descendants are gone by now. Processes that another process has started for them have the mark.
                left = bool(self._nonce) and bool(process_tree.kill_tree(self._nonce, include_descendants=True, timeout_s=1))
            except OSError:
                left = True  # no descriptors or no memory: the killed processes release some
            if self._reap() and not left and self._remove_isolation():
                break
            self._socket.flush()
            time.sleep(0.002)
        self._socket.send(empty=True)
        give_up_at = time.monotonic() + 1
        while not self._socket.flush() and time.monotonic() < give_up_at:
            time.sleep(0.01)

    def _remove_isolation(self) -> bool:
        """Return False if a process is left in the namespace or cgroup."""
        try:
            return self._isolation is None or self._isolation.remove()
        except OSError:
            return False

    def _kill_descendants(self) -> None:
        """Kill the namespace or cgroup, and the driver's group, with one call that no fork escapes; then all descendants."""
        if self._isolation is not None:
            self._isolation.kill()
        if self._driver is not None:
            _kill(-self._driver)
            _kill(self._driver)
        # The kernel timer can do no more than this. If it killed the watchdog now, it would only interrupt the rest.
        self._kill_timer.disarm()
        give_up_at = time.monotonic() + 1
        while not self._reap() and time.monotonic() < give_up_at:
            if not isinstance(self._isolation, PidNamespace):
                process_tree.kill_descendants()
            time.sleep(0.0005)


def _has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def main(descriptor: int, runner_pid: int) -> None:
    for number in _IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an inherited SIG_IGN would make waitpid fail
    adopt_orphans()
    try:
        runner = os.pidfd_open(runner_pid)
    except ProcessLookupError:
        return
    # If the runner ended before pidfd_open, it is not the parent any more, and its pid may have been reused.
    if os.getppid() == runner_pid:
        channel = JsonSocket(descriptor)
        isolation, level, problem = isolate_driver()
        Watchdog(channel, runner, isolation).run(level, problem)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
