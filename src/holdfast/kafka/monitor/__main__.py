"""Kafka monitor process: `python -m holdfast.kafka.monitor`. The driver starts it and names its queries on standard input."""

import contextlib
import json
import os
import select
import sys
import time
from typing import Any

from holdfast.atomic_file import write_atomically
from holdfast.errors import HoldfastError, Refused
from holdfast.kafka.check.park_policy import Decision, Verdict
from holdfast.kafka.monitor.monitor_settings import Settings
from holdfast.kafka.monitor.query_monitor import Post

WORDS = "kafka.json"
FIRST_CHECK_S = 5.0
IDLE_S = 3600.0
STORY_MAX = 3


class Sentry:
    """Hears: {"guard": query, "gate": bool} and {"why": true}. Says: go, refused, park, why."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._posts: dict[str, Post] = {}
        self._waiting: set[str] = set()
        """The queries that the driver has not been allowed to start yet."""
        self._remarks: dict[str, str] = {}
        self._written: dict[str, Any] | None = None
        self._story: list[str] = []
        """What was the matter since all was in order last, or what was until it is again."""
        self._settled = True
        self._over = False
        """The driver was told to end: what was said last stays."""

    def pause_s(self, now: float) -> float:
        return max(0.0, min((post.due_at for post in self._posts.values()), default=now + IDLE_S) - now)

    def hear(self, message: dict[str, Any]) -> None:
        if "guard" in message:
            self._take_on(message["guard"], gate=bool(message.get("gate", True)))
        elif "why" in message:
            _say(why=self._why())

    def _take_on(self, query: dict[str, Any], *, gate: bool) -> None:
        location = str(query["location"])
        try:
            post = Post(self._settings, query)
            if gate and (chosen := post.act_on_choice()):
                self._remarks[location] = chosen
        except Refused as error:
            _say(refused=location, sentence=str(error))
            return
        except HoldfastError as error:
            _complain(f"{location}: {error}")
            post = Post(self._settings, query)
        self._posts[location] = post
        if gate:
            self._waiting.add(location)
        else:
            post.due_at = time.monotonic() + FIRST_CHECK_S

    def look(self, now: float) -> None:
        for location, post in list(self._posts.items()):
            if post.due_at <= now:
                try:
                    self._act(location, post, post.look(now))
                except Refused as error:
                    self._refuse(location, str(error))
                except HoldfastError as error:  # what it knows could not be written down: the next look tries again
                    _complain(f"{location}: {error}")
                    post.due_at = now + self._settings.check_s
        self._write()

    def _act(self, location: str, post: Post, decision: Decision) -> None:
        if decision.verdict is Verdict.PARK:
            self._write()
            self._over = True
            del self._posts[location]
            _say(park=location, sentence=post.parked_because())
        elif decision.verdict is Verdict.GO and location in self._waiting:
            self._waiting.discard(location)
            post.due_at = time.monotonic() + FIRST_CHECK_S
            with contextlib.suppress(HoldfastError):
                post.forget_lost()
            _say(go=location)

    def _refuse(self, location: str, sentence: str) -> None:
        self._posts.pop(location, None)
        if location in self._waiting:
            self._waiting.discard(location)
            _say(refused=location, sentence=sentence, here=False)
        else:
            _complain(f"{location} is not guarded any more: {sentence}")

    def _why(self) -> dict[str, str]:
        """Is Kafka to blame for a failure? Looked at once: what was true at the last look may not be any more."""
        worst, sentence = Verdict.GO, ""
        for post in self._posts.values():
            with contextlib.suppress(HoldfastError):
                decision = post.look(time.monotonic())
                if decision.certain:
                    time.sleep(decision.again_s)
                    decision = post.look(time.monotonic())
                if decision.verdict is Verdict.PARK:
                    return {"verdict": Verdict.PARK, "sentence": post.parked_because()}
                if decision.verdict is Verdict.WAIT:
                    worst, sentence = Verdict.WAIT, decision.note
        return {"verdict": worst, "sentence": sentence}

    def _write(self) -> None:
        """For the runner. The remark about a choice stays for as long as this process does: it is how the attempt began."""
        words = {"note": self._note(), "lag": [each for post in self._posts.values() for each in post.lag]}
        if words != self._written and not self._over:
            with contextlib.suppress(OSError):
                write_atomically(self._settings.control / WORDS, json.dumps(words).encode())
                self._written = words

    def _note(self) -> str:
        """A leader looks at a note now and then. So what has passed is told for as long as nothing else is."""
        gates = [post.note for location, post in self._posts.items() if location in self._waiting and post.note]
        running = [post.note for location, post in self._posts.items() if location not in self._waiting and post.note]
        now = "; ".join(gates or running)
        if now and self._settled:
            self._story = []
        self._settled = not now
        if now and now not in self._story:
            self._story = [*self._story, now][-STORY_MAX:]
        parts = list(self._remarks.values())
        if now:
            parts.append(f"it waits for Kafka before it starts: {now}" if gates else f"Kafka: {now}")
        elif self._story:
            parts.append(f"Kafka is in order again, after: {'; '.join(self._story)}")
        return "; ".join(parts)


def _say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _complain(sentence: str) -> None:
    sys.stderr.write(f"holdfast: {sentence}\n")
    sys.stderr.flush()


def main() -> int:
    try:
        sentry = Sentry(Settings.read(os.environ))
    except (Refused, KeyError) as error:
        _complain(f"the offset guard cannot begin: {error}")
        return 2
    heard = b""
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        while True:
            if select.select([0], [], [], sentry.pause_s(time.monotonic()))[0]:
                data = os.read(0, 1 << 16)
                if not data:
                    return 0  # the driver has ended
                *lines, heard = (heard + data).split(b"\n")
                for line in lines:
                    sentry.hear(json.loads(line))
            sentry.look(time.monotonic())
    return 0


if __name__ == "__main__":
    sys.exit(main())
