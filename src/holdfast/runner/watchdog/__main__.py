"""Ends a driver and everything that it started, in time. `python -P -m holdfast.runner.watchdog DESCRIPTOR RUNNER_PID`

The driver's parent. It knows until when the driver may live. At that deadline, when the runner is dead, or when it is told to,
it kills the tree until nothing of it is left; past the deadline nothing is started. So neither a paused nor a dead runner
leaves a driver behind. If the watchdog itself is killed, the kernel kills the driver with it, and the runner kills the rest.

Standard library only, one thread, no waiting but in `poll`: one of these runs per attempt, and none may ever hang. The deadline
is a timer on CLOCK_BOOTTIME, the clock that goes on while the machine sleeps: it rings as soon as the machine wakes, where the
timeout of a poll would wait for the rest of its time.

Lines of JSON on the socket whose descriptor is given. From the runner:
  {"deadline": seconds of CLOCK_BOOTTIME}   the newest counts, whether it is earlier or later than the one before
  {"start": {"command": […], "environment": {…}, "directory": "…"}}   the environment carries the nonce
  {"signal": number}   to the driver alone
  {"kill": true}
To the runner: {"ready": own pid}, {"started": pid} or {"refused": sentence}, {"ending": why the tree is killed now},
{"exited": the driver's wait status}, {"empty": true} when nothing of the tree is left. Then the watchdog ends.
"""

import contextlib
import ctypes
import math
import os
import select
import signal
import sys
import time

from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.boottime_timer import Timer, now
from holdfast.runner.watchdog.json_socket import DEADLINE_PASSED, Garbage, Line
from holdfast.runner.watchdog.spawn import Order, spawn

GRACE_S = 2.0
"""How long the rest of a tree may outlive its driver: Spark's JVM ends by itself when its Python does."""
YEARS_S = 10 * 365 * 86400
"""No deadline is further away. Keeps the timer's arithmetic within its fields."""

_PR_SET_CHILD_SUBREAPER = 36
_DEAF_TO = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""What is sent to everybody (a service that is stopped, a terminal that is closed) is for the runner to act upon."""

_libc = ctypes.CDLL(None, use_errno=True)


class Watchdog:
    def __init__(self, line: Line, runner: int) -> None:
        self._line = line
        self._runner = runner
        """A pidfd. The end of the socket is not the end of the runner, nor the other way round."""
        self._timer = Timer()
        self._poll = select.poll()
        for descriptor in (line.descriptor, runner, self._timer.descriptor):
            self._poll.register(descriptor, select.POLLIN)
        self._deadline: float | None = None
        self._nonce = ""
        self._driver: int | None = None
        """Its pid, until it has been waited for: as long as this is set, nobody else can have it."""
        self._driver_exit = -1
        self._report = -1
        """The pipe on which the driver says why it cannot become its command, until it has."""
        self._grace_until: float | None = None
        self._why = ""

    def run(self) -> None:
        self._line.say(ready=os.getpid())
        try:
            while not self._why:
                self._turn()
        finally:
            self._end()

    def _turn(self) -> None:
        ready = {descriptor for descriptor, _ in self._poll.poll(1000 if self._grace_until is None else 20)}
        alone = self._reap()
        if self._report in ready:
            self._hear_of_start()
        if self._runner in ready:
            self._why = "the runner is dead"
            return
        # The clock is asked before the line is read: a deadline that had passed by then may have been moved in time, and who is
        # paused between the two only looks again.
        clock = now()
        try:
            for message in self._line.read():
                self._obey(message)
        except Garbage:
            self._why = "the runner sent something that cannot be read"
        self._line.flush()
        if self._why:
            return
        if self._line.closed:
            self._why = "the runner has hung up"
        elif self._deadline is not None and clock >= self._deadline:
            self._why = DEADLINE_PASSED
        elif self._grace_until is not None and (alone or time.monotonic() > self._grace_until):
            self._why = "the driver has ended"

    def _obey(self, message: dict[str, object]) -> None:
        if "deadline" in message:
            deadline = message["deadline"]
            if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not math.isfinite(deadline):
                raise Garbage
            self._deadline = min(float(deadline), now() + YEARS_S)
            self._timer.ring_at(self._deadline)
        if "kill" in message:
            self._why = "the runner asked for it"
        if "signal" in message and self._driver is not None:
            number = message["signal"]
            if isinstance(number, int) and number in signal.valid_signals():
                os.kill(self._driver, number)
        if "start" in message and not self._why:
            order = Order(message["start"])
            try:
                self._start(order)
            except OSError as error:  # too many processes, no descriptors
                self._line.say(refused=f"cannot start a process: {error.strerror}")

    def _start(self, order: Order) -> None:
        if self._driver is not None or self._grace_until is not None:
            self._line.say(refused="a driver has been started already")
            return
        if self._deadline is None or now() >= self._deadline:
            self._line.say(refused="the deadline had passed before the driver was started")
            return
        report, theirs = os.pipe()
        try:
            pid = spawn(order, theirs, self._deadline)
        except OSError:
            os.close(report)
            raise
        finally:
            os.close(theirs)
        self._nonce, self._driver, self._report = order.nonce, pid, report
        self._poll.register(report, select.POLLIN)
        with contextlib.suppress(OSError):  # without it, the driver's end is seen a second later
            self._driver_exit = os.pidfd_open(pid)
            self._poll.register(self._driver_exit, select.POLLIN)

    def _hear_of_start(self) -> None:
        """The pipe closes by itself when the driver becomes its command; else it holds a sentence."""
        sentence = os.read(self._report, 4096).decode(errors="replace")
        self._poll.unregister(self._report)
        os.close(self._report)
        self._report = -1
        if not sentence:
            self._line.say(started=self._driver)
            return
        assert self._driver is not None
        _kill(self._driver)  # its next and last act is to end
        os.waitpid(self._driver, 0)
        self._forget_driver()
        self._line.say(refused=sentence)

    def _reap(self) -> bool:
        """Wait for all who have ended, orphans among them. True if there is no child left, and so no descendant at all.

        That is certain, whatever they did to their environment: all orphans come here.
        """
        try:
            while True:
                if self._report >= 0 and self._driver is not None and _has_ended(self._driver):
                    self._hear_of_start()
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                if pid == self._driver:
                    self._forget_driver()
                    self._grace_until = time.monotonic() + GRACE_S
                    self._line.say(exited=status)
        except ChildProcessError:
            return True

    def _forget_driver(self) -> None:
        if self._driver_exit >= 0:
            self._poll.unregister(self._driver_exit)
            os.close(self._driver_exit)
        self._driver, self._driver_exit = None, -1

    def _end(self) -> None:
        """Kill until nothing is left, however long it takes."""
        self._line.say(ending=self._why or "the watchdog has failed")
        while True:
            try:
                self._strike()
                # All descendants are gone by now, as a rule. What somebody else has started for them carries the mark.
                left = bool(self._nonce) and bool(process_tree.kill(self._nonce, own=True, within_s=1))
            except OSError:
                left = True  # no descriptors, no memory: what was struck down gives some back
            if self._reap() and not left:
                break
            self._line.flush()
            time.sleep(0.002)
        self._line.say(empty=True)
        give_up_at = time.monotonic() + 1
        while not self._line.flush() and time.monotonic() < give_up_at:
            time.sleep(0.01)

    def _strike(self) -> None:
        """Kill the driver's group at one blow, which no fork escapes, and then all other descendants."""
        if self._driver is not None:
            _kill(-self._driver)
            _kill(self._driver)
        give_up_at = time.monotonic() + 1
        while not self._reap() and time.monotonic() < give_up_at:
            process_tree.strike()
            time.sleep(0.0005)


def _has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def main(line: int, runner_pid: int) -> None:
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # were it ignored, as it may be inherited, nobody could wait for the driver
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
    try:
        runner = os.pidfd_open(runner_pid)
    except ProcessLookupError:
        return
    # A runner that ended before the line above is not our parent any more, and its pid may be somebody else's.
    if os.getppid() == runner_pid:
        Watchdog(Line(line), runner).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
