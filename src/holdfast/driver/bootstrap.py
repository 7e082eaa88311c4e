"""`python -m holdfast.driver.bootstrap SCRIPT ARGS…`: run a script as `python SCRIPT ARGS…` would, and a little more.

Its queries get checkpoints that last, their progress is reported, they stop at a batch boundary when asked to, and how it all
ended is written down. A script that ends in .yml is a declarative pipeline.
"""

import atexit
import builtins
import contextlib
import importlib.machinery
import io
import os
import sys
import threading
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from holdfast.driver import declarative_pipeline, graceful_stop, jvm_prestart, kafka_connector
from holdfast.driver.active_queries import Queries
from holdfast.driver.after_import import after_import
from holdfast.driver.checkpoint_placement import Places, take_care_of
from holdfast.driver.exit_record import FINISHED, FORSAKEN, NOT_HERE, STOPPED, STOPPED_ABRUPTLY, End, LastWords
from holdfast.driver.failure_message import SENTENCE_MAX, describe, without_own_frames
from holdfast.driver.jvm_prestart import JavaAhead
from holdfast.driver.kafka_gate import Gate, closed
from holdfast.driver.monitor_thread import Watch
from holdfast.driver.progress_report import Progress
from holdfast.driver.query_registry import Started
from holdfast.driver.stderr_log import say
from holdfast.driver.termination import Termination
from holdfast.driver_protocol.environment import Environment
from holdfast.errors import Unavailable

LINGER_S = 5.0
INTERRUPTED = 130
"""What a shell says of a process that ended by SIGINT."""


class Driver:
    def __init__(self, script: str, environment: Environment) -> None:
        self._script = script
        self._environment = environment
        self._queries = Queries()
        self._stop = graceful_stop.of_this_process()
        self._watch = Watch(self._queries, self._stop, Progress(environment.control), forsaken=self._forsaken)
        self._started = Started(environment.control)
        self._words = LastWords(environment.control)
        self._java = JavaAhead(environment.control)
        self._gate = Gate(script, os.environ, self._stop, self._end_now)
        self._end: End | None = None

    def prepare(self) -> None:
        """All that must be so before the first line of the script."""
        # Registered before everything that the script registers, so it runs after all of that.
        atexit.register(self._say_the_end)
        places = Places(self._environment.checkpoint) if self._environment.checkpoint else None
        after_import(
            {
                "pyspark.sql.streaming.readwriter": lambda module: self._change_writers(module, places),
                "pyspark.sql.connect.streaming.readwriter": lambda module: self._change_writers(module, places),
                "pyspark.sql.streaming.query": self._change_queries,
                "pyspark.sql.connect.streaming.query": lambda module: graceful_stop.notice_waiting(module, self._queries),
                "pyspark.java_gateway": self._java.offer_to,
                "pyspark.core.context": lambda module: graceful_stop.let_queries_settle(module, self._queries, self._stop),
            }
        )
        Termination(self._queries, self._stop).prepare()
        for stream in (sys.stdout, sys.stderr):
            # A log that is followed shows a line when it was printed, and the last ones are there after a crash.
            with contextlib.suppress(AttributeError, ValueError, OSError):
                stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        self._watch.start()

    def _start_java(self) -> None:
        with contextlib.suppress(OSError), open(self._script, "rb") as file:
            if not declarative_pipeline.is_pipeline(self._script) and jvm_prestart.wanted_by(file.read(), os.environ):
                self._java.start()

    def _change_writers(self, module: ModuleType, places: Places | None) -> None:
        take_care_of(module, places, self._queries, self._started, self._gate)

    def _change_queries(self, module: ModuleType) -> None:
        graceful_stop.tell_the_truth(module, self._stop)
        graceful_stop.notice_waiting(module, self._queries)

    def run(self) -> int:
        """The exit code."""
        try:
            kafka_connector.provide(self._script, os.environ)
            program = self._program()
        except Unavailable as error:
            say(str(error))
            return self._fail(End("failed", str(error), condition=NOT_HERE), 1)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return self._failed(error, started=False)
        self._start_java()
        try:
            program()
            self._queries.wait()
        except SystemExit as exit:
            return self._exited(exit.code)
        except BaseException as error:  # noqa: BLE001 this is the top of the script
            return self._failed(error, started=not _never_starts(error) or self._queries.any_started)
        return 0

    def _program(self) -> Callable[[], None]:
        if declarative_pipeline.is_pipeline(self._script):
            return lambda: declarative_pipeline.run(self._script, self._environment.checkpoint, self._queries)
        code = _compiled(self._script)
        return lambda: exec(code, _main_module(self._script).__dict__)

    # How it ended

    def _exited(self, status: Any) -> int:
        if status is None or status == 0:
            self._settle()
            return 0
        code = status if isinstance(status, int) else 1
        words = f"its script ended with exit code {code & 0xFF}"
        if not isinstance(status, int):
            sys.stderr.write(f"{status}\n")
            words = f"its script ended: {' '.join(str(status).split())[:200]}"
        return self._fail(End("failed", words, exception="SystemExit"), code)

    def _failed(self, error: BaseException, *, started: bool) -> int:
        failure = describe(error, self._script)
        end = closed(error) or self._gate.cause_of(failure) or End.of(failure, started=started)
        without_own_frames(error)
        with contextlib.suppress(Exception):
            sys.excepthook(type(error), error, error.__traceback__)
        return self._fail(end, INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1)

    def _fail(self, end: End, code: int) -> int:
        """Many a script takes the end of its query for a failure. If that was asked for, the data is as it should be."""
        self._settle()
        if self._stop.honoured and not self._queries.any_failed and end.java_status is None:
            end = End("stopped", f"{self._stopped.reason}; {end.reason}"[:SENTENCE_MAX])
        self._end = end
        self._say_the_end()
        # A thread of the script that is no daemon would keep the failed process alive, and nobody would start it again.
        last = threading.Timer(LINGER_S, os._exit, (code & 0xFF,))
        last.daemon = True
        last.start()
        return code

    def _forsaken(self, reason: str) -> None:
        """The script waits for Java, which waits for executors: neither would hear of it, so the process ends here and now."""
        self._end_now(End("failed", reason, condition=FORSAKEN))

    def _end_now(self, end: End) -> None:
        say(end.reason)
        self._words.say(end)
        os._exit(1)

    @property
    def _stopped(self) -> End:
        return STOPPED_ABRUPTLY if self._stop.abrupt else STOPPED

    def _settle(self) -> None:
        """A script may end with the first of its queries. If it is to stop, the others are still at their last batch."""
        if self._stop.asked:
            self._queries.settle()

    def _say_the_end(self) -> None:
        self._java.forget()
        self._watch.finish()
        if self._end is None:
            self._end = self._stopped if self._stop.honoured or self._stop.seen else FINISHED
        self._words.say(self._end)


def _compiled(script: str) -> CodeType:
    with io.open_code(script) as file:
        source = file.read()
    return compile(source, script, "exec", dont_inherit=True)


def _main_module(script: str) -> ModuleType:
    """In its place for good: whatever pickles by name or starts processes looks there, even after the script's last line."""
    module = ModuleType("__main__")
    module.__dict__.update(__file__=script, __builtins__=builtins, __cached__=None, __package__=None)
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", script)
    sys.modules["__main__"] = module
    return module


def _never_starts(error: BaseException) -> bool:
    """A file beside the script that is no Python. What a script reads from elsewhere and cannot parse has no such file."""
    return isinstance(error, SyntaxError) and os.path.isfile(error.filename or "")


def _set_up_paths(script: str) -> None:
    folder = os.path.dirname(os.path.abspath(script))
    if sys.flags.safe_path:
        sys.path.insert(0, folder)
    else:
        sys.path[0] = folder
    # Spark's Python workers import what lies beside the script, too.
    known = os.environ.get("PYTHONPATH", "")
    if folder not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{known}{os.pathsep}{folder}" if known else folder


def main(words: list[str]) -> int:
    if not words:
        say("usage: python -m holdfast.driver.bootstrap SCRIPT [ARGS…]")
        return 2
    script = words[0]
    _set_up_paths(script)
    sys.argv[:] = words
    driver = Driver(script, Environment.read())
    driver.prepare()
    return driver.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
