"""A query with Kafka sources starts when its offsets are in order, and ends when they are not any more.

A separate process (`holdfast.kafka.monitor`) judges the offsets. The driver describes each query to it through a pipe: its
options may hold passwords. It belongs to this process and ends with it.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.driver.exit_record import KAFKA_AWAY, KAFKA_DATA_LOSS, NOT_HERE, End
from holdfast.driver.failure_message import Failure
from holdfast.driver.graceful_stop import Stop
from holdfast.driver.kafka_sources import kafka_sources
from holdfast.driver.stderr_log import say
from holdfast.errors import HoldfastError

GUARD = "kafka-offsets"
OFF = "HOLDFAST_GUARDS_OFF"
WAIT_S = 0.2
WHY_S = 40.0
AGAIN_S = 1.0
AGAIN_S_MAX = 30.0
MENTION_S = 5.0


class Closed(HoldfastError):
    """The query may not start. `end` is how the attempt ends, if the script does not know better."""

    def __init__(self, end: End) -> None:
        super().__init__(end.reason)
        self.end = end


class Gate:
    def __init__(self, script: str, variables: Mapping[str, str], stop: Stop, end_now: Callable[[End], None]) -> None:
        """`end_now` is called, from a thread of this gate, when what runs must not go on."""
        self._variables = _without_the_script(variables, script)
        self._stop = stop
        self._end_now = end_now
        guarded = all(variables.get(name) for name in ("HOLDFAST_STORAGE", "HOLDFAST_CHECKPOINT", "HOLDFAST_CONTROL"))
        self._open = not guarded or GUARD in variables.get(OFF, "").replace(",", " ").split()
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._queries: dict[str, dict[str, Any]] = {}
        """By location, all that were told."""
        self._answers: dict[str, End | None] = {}
        """Of those that have one: None to go on."""
        self._why: dict[str, Any] | None = None

    def pass_through(self, writer: Any, location: str | None, label: str) -> None:
        """Blocks until the query may start. Raises Closed, and SystemExit if the job is to stop meanwhile."""
        sources = [] if self._open else kafka_sources(writer)
        if not sources:
            return
        place = (location or "").rstrip("/")
        query = {"location": place, "label": label, "sources": sources}
        with self._changed:
            self._queries[place] = query
            self._answers.pop(place, None)
            self._begin()
        self._tell(guard=query, gate=True)
        end = self._answered(place, label)
        if end is not None:
            raise Closed(end)

    def _answered(self, location: str, label: str) -> End | None:
        mention_at = time.monotonic() + MENTION_S
        with self._changed:
            while location not in self._answers:
                self._changed.wait(WAIT_S)
                if self._stop.asked:
                    self._stop.seen = True
                    raise SystemExit(0)
                if time.monotonic() >= mention_at:
                    mention_at = float("inf")
                    say(f"the query {label} waits until its Kafka offsets are in order")
            return self._answers[location]

    def cause_of(self, failure: Failure) -> End | None:
        """Whether it was Kafka that a query failed of: brokers that are away, or offsets that are not what they were."""
        told = f"{failure.condition} {failure.exception} {failure.reason}".lower()
        if self._process is None or "kafka" not in told:
            return None
        give_up_at = time.monotonic() + WHY_S
        with self._changed:
            self._why = None
        self._tell(why=True)
        with self._changed:
            while self._why is None and time.monotonic() < give_up_at:
                self._changed.wait(WAIT_S)
            why: dict[str, Any] = self._why or {}
        if why.get("verdict") == "park":
            return End("failed", str(why.get("sentence")), condition=KAFKA_DATA_LOSS)
        if why.get("verdict") == "wait":
            return End("failed", f"Kafka: {why.get('sentence')}", condition=KAFKA_AWAY)
        if "DATA_LOSS" in failure.condition:
            reason = f"Spark could not find its Kafka offsets, and now they are in order: {failure.reason}"
            return End("failed", reason, condition=KAFKA_AWAY)
        return None

    # The process

    def _begin(self) -> None:
        if self._process is None:
            threading.Thread(target=self._attend, args=(self._started(),), name="holdfast-kafka", daemon=True).start()

    def _started(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-P", "-m", "holdfast.kafka.monitor"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._variables)
        return self._process

    def _tell(self, **message: Any) -> None:
        """What a dead one does not hear, the next one is told."""
        with self._changed, contextlib.suppress(OSError, ValueError):
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                self._process.stdin.flush()

    def _attend(self, process: "subprocess.Popen[bytes]") -> None:
        again_s = AGAIN_S
        while True:
            began = time.monotonic()
            assert process.stdout is not None
            for line in process.stdout:
                with contextlib.suppress(ValueError):
                    self._hear(json.loads(line))
            process.wait()
            again_s = AGAIN_S if time.monotonic() - began > AGAIN_S_MAX else min(2 * again_s, AGAIN_S_MAX)
            say(f"the process that guards Kafka offsets has ended ({process.returncode}), and is started again")
            time.sleep(again_s)
            with self._changed:
                process = self._started()
                queries = [(query, location not in self._answers) for location, query in self._queries.items()]
            for query, gate in queries:
                self._tell(guard=query, gate=gate)

    def _hear(self, message: dict[str, Any]) -> None:
        sentence = str(message.get("sentence", ""))
        if "park" in message:
            end = End("failed", sentence, condition=KAFKA_DATA_LOSS)
            with self._changed:
                starting = message["park"] not in self._answers
            if not starting:
                self._end_now(end)
            self._answer(message["park"], end)
        elif "refused" in message:
            here = bool(message.get("here", True))
            self._answer(message["refused"], End("failed", sentence, condition="" if here else NOT_HERE, started=not here))
        elif "go" in message:
            self._answer(message["go"], None)
        elif "why" in message:
            with self._changed:
                self._why = message["why"]
                self._changed.notify_all()

    def _answer(self, location: str, end: End | None) -> None:
        with self._changed:
            self._answers[location] = end
            self._changed.notify_all()


def closed(error: BaseException) -> End | None:
    """How an attempt ends whose script failed because a query might not start, whatever it has made of that."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        if isinstance(following, Closed):
            return following.end
        seen.add(id(following))
        following = following.__cause__ or following.__context__
    return None


def _without_the_script(variables: Mapping[str, str], script: str) -> dict[str, str]:
    """What lies beside the user's script must not stand for a module of ours."""
    folder = os.path.dirname(os.path.abspath(script))
    paths = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path and os.path.abspath(path) != folder]
    kept = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)} if paths else kept
