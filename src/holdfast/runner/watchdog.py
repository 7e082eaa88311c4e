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
import json
import math
import os
import select
import signal
import sys
import time

from holdfast.runner import tree

LINE_BYTES_MAX = 4 * 1024 * 1024
GRACE_S = 2.0
"""How long the rest of a tree may outlive its driver: Spark's JVM ends by itself when its Python does."""
YEARS_S = 10 * 365 * 86400
"""No deadline is further away. Keeps the timer's arithmetic within its fields."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TFD_TIMER_ABSTIME = 1
_NOT_STARTED = 127
_DEAF_TO = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""What is sent to everybody (a service that is stopped, a terminal that is closed) is for the runner to act upon."""

_libc = ctypes.CDLL(None, use_errno=True)


class Garbage(Exception):
    """Something on the socket that no runner sends."""


class Order:
    """What to start."""

    __slots__ = ("command", "directory", "environment", "nonce")

    def __init__(self, fields: object) -> None:
        try:
            self.command = [str(part) for part in fields["command"]]  # type: ignore[index]
            self.environment = {str(key): str(value) for key, value in fields["environment"].items()}  # type: ignore[index]
            self.directory = str(fields["directory"])  # type: ignore[index]
            self.nonce = self.environment[tree.VARIABLE]
        except (LookupError, TypeError, AttributeError) as error:
            raise Garbage from error
        if not self.command or not self.nonce:
            raise Garbage


class Line:
    """One end of the socket between runner and watchdog. Never waits: whoever is paused does not read."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.closed = False
        self._received = b""
        self._unsent = b""
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)

    def read(self) -> list[dict[str, object]]:
        """The messages that have come. Raises Garbage."""
        try:
            while len(self._received) <= LINE_BYTES_MAX:
                data = os.read(self.descriptor, 1 << 16)
                if not data:
                    self.closed = True
                    break
                self._received += data
        except BlockingIOError:
            pass
        except ConnectionError:
            self.closed = True
        *lines, self._received = self._received.split(b"\n")
        if len(self._received) > LINE_BYTES_MAX:
            raise Garbage
        return [_decode(line) for line in lines]

    def say(self, **message: object) -> None:
        # Lines are few and short, so that this bound is never met. It is there so that nothing can grow.
        if len(self._unsent) < LINE_BYTES_MAX:
            self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Whether everything is sent, or nobody is there to read it."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self.descriptor, self._unsent) :]
        except BlockingIOError:
            return False
        except ConnectionError:
            self._unsent = b""
        return True


class Timer:
    """Becomes readable at a moment of CLOCK_BOOTTIME. Python has no timerfd before 3.13."""

    def __init__(self) -> None:
        self.descriptor = _libc.timerfd_create(time.CLOCK_BOOTTIME, os.O_CLOEXEC | os.O_NONBLOCK)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def ring_at(self, moment_s: float) -> None:
        # Interval, then value, each in seconds and nanoseconds. A value of nought would switch it off.
        whole = max(int(moment_s), 0)
        setting = (ctypes.c_long * 4)(0, 0, whole, max(int((moment_s - whole) * 1e9), 1))
        if _libc.timerfd_settime(self.descriptor, _TFD_TIMER_ABSTIME, setting, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")


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
        try:
            # All that has come, before the clock is asked: a deadline that has passed may have been moved in time.
            for message in self._line.read():
                self._obey(message)
        except Garbage:
            self._why = "the runner sent something that cannot be read"
        self._line.flush()
        if self._why:
            return
        if self._line.closed:
            self._why = "the runner has hung up"
        elif self._deadline is not None and _now() >= self._deadline:
            self._why = "the deadline has passed"
        elif self._grace_until is not None and (alone or time.monotonic() > self._grace_until):
            self._why = "the driver has ended"

    def _obey(self, message: dict[str, object]) -> None:
        if "deadline" in message:
            deadline = message["deadline"]
            if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not math.isfinite(deadline):
                raise Garbage
            self._deadline = min(float(deadline), _now() + YEARS_S)
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
        if self._deadline is None or _now() >= self._deadline:
            self._line.say(refused="the deadline had passed before the driver was started")
            return
        report, theirs = os.pipe()
        try:
            pid = _spawn(order, theirs, self._deadline)
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
                left = bool(self._nonce) and bool(tree.kill(self._nonce, own=True, within_s=1))
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
            tree.strike()
            time.sleep(0.0005)


def _spawn(order: Order, report: int, deadline: float) -> int:
    """A fork is safe here: there is only one thread."""
    me = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    sentence = ""
    try:
        sentence = _become(order, deadline, me)
    except BaseException as error:  # noqa: BLE001 - whatever it is: nothing of the watchdog may go on in this process
        sentence = f"cannot start the driver: {error}"
    finally:
        os.write(report, sentence.encode(errors="replace")[:4096])
        os._exit(_NOT_STARTED)


def _become(order: Order, deadline: float, parent: int) -> str:
    """In the child: become the driver. Returns only if that fails, with the sentence that says why.

    It keeps the standard descriptors only: all others of the watchdog are closed by exec.
    """
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # A parent that ended before the line above sends no signal any more, but this process has another parent by now.
    if os.getppid() != parent:
        os._exit(_NOT_STARTED)
    os.dup2(1, 2)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.chdir(order.directory)
    except OSError as error:
        return f"cannot enter {order.directory}: {error.strerror}"
    if _now() >= deadline:
        return "the deadline passed while the driver was being started"
    try:
        os.execvpe(order.command[0], order.command, order.environment)
    except OSError as error:
        return f"cannot run {order.command[0]}: {error.strerror}"


def _decode(line: bytes) -> dict[str, object]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Garbage from error
    if not isinstance(message, dict):
        raise Garbage
    return message


def _has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


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
