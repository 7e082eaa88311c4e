"""What is thought about events takes as long as there are events, and not as long as there are pairs of them."""

import contextlib
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from holdfast.explain.analyze import answer
from holdfast.explain.event import Event
from holdfast.explain.library import library
from holdfast.explain.library.causal_rule import Rule
from holdfast.explain.timeline.causes import SECOND_MS, SLACK_MS, Causes
from holdfast.explain.timeline.occurrence import Happening, folded
from tests.harness.many_events import many

KNOWN = library()
FEW, MANY = 5000, 20_000
GROWTH_MAX = 2.0
"""How much more than by their number is done about many; if it were by their pairs, it would be four."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "span_ms", "files"),
    [
        (frozenset(), 86_400_000, 12),
        (frozenset({"connection-lost", "client-disconnected", "kafka-session-expired"}), 86_400_000, 200),
        (frozenset({"leadership-granted", "job-recovering", "checkpoint-completed", "no-slots", "job-restarting"}), 60_000, 12),
    ],
    ids=["all kinds in a day", "connections that come and go", "jobs in a minute"],
)
def test_four_times_as_many_events_take_about_four_times_as_much(
    kinds: frozenset[str], span_ms: int, files: int, report: Callable[[str], None]
) -> None:
    done = []
    for number in (FEW, MANY):
        gathered = many(number, KNOWN, kinds, files, span_ms)
        with _calls() as calls:
            found = answer(gathered, KNOWN)
            found.json()
        done.append(calls.total())
        assert len(found.happenings) > number // 10
        assert sum(one.count for one in found.happenings) == number
        assert len(found.summary) < 10_000
    report(f"explain: {done[0]:,} calls for {FEW:,} events, {done[1]:,} for {MANY:,}")
    assert done[1] / done[0] < GROWTH_MAX * MANY / FEW


@contextlib.contextmanager
def _calls() -> Iterator[Counter[str]]:
    """How many functions are called: the same on every machine, however busy."""
    counted: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, argument: counted.update((event,)))
    try:
        yield counted
    finally:
        sys.setprofile(None)


def test_a_cause_is_the_latest_that_a_rule_allows() -> None:
    """As a search through all pairs finds it."""
    events = many(600, KNOWN, span_ms=300_000, files=3).events
    happenings = folded(Happening(event, f"server {event.file}", event.ms or 0, event.ms or 0) for event in events)
    causes = Causes(happenings, KNOWN.rules)
    numbers = {id(one): number for number, one in enumerate(happenings)}
    chains = [causes.chain(one) for one in happenings]
    assert sum(len(chain) > 1 for chain in chains) > 50
    for one, chain in zip(happenings, chains, strict=True):
        assert chain[-1].happening is one
        for before, link in itertools.pairwise(chain):
            assert (before.happening, link.rule) == _searched(happenings, numbers[id(link.happening)])


def _searched(happenings: list[Happening], number: int) -> tuple[Happening, str] | None:
    effect = happenings[number]
    for rule in KNOWN.rules:
        allowed = [
            (cause.begin_ms, -other)
            for other, cause in enumerate(happenings)
            if effect.kind in rule.effect and cause.kind in rule.cause and _fits(happenings, rule, other, number)
        ]
        if allowed:
            return happenings[-max(allowed)[1]], rule.says
    return None


def _fits(happenings: list[Happening], rule: Rule, other: int, number: int) -> bool:
    cause, effect = happenings[other], happenings[number]
    slack_ms = SECOND_MS if effect.begin_ms % SECOND_MS == 0 else SLACK_MS
    in_time = -slack_ms <= effect.begin_ms - cause.begin_ms <= rule.within_ms
    alike = all(cause.of(name) and cause.of(name) == effect.of(name) for name in rule.same)
    alike = alike and not any(cause.of(name) and cause.of(name) == effect.of(name) for name in rule.differ)
    before = other < number or (other != number and cause.kind not in rule.effect)
    return in_time and alike and before and not any(_rules_out(rule, cause, effect, one) for one in happenings)


def _rules_out(rule: Rule, cause: Happening, effect: Happening, one: Happening) -> bool:
    of_one = one.component == effect.component and len({one.of("session"), effect.of("session")} - {""}) < 2
    since = one.kind in rule.since and of_one and cause.begin_ms < one.begin_ms < effect.begin_ms
    just_before = cause.begin_ms - rule.within_ms <= one.begin_ms <= cause.begin_ms
    return since or (one.kind in rule.unless and one.component == cause.component and just_before)


def test_what_goes_on_and_off_all_day_has_not_one_beginning() -> None:
    """A chain comes to the same kind of thing at the same place once."""
    happenings = [
        Happening(Event(kind, "client", kind, 0, at, 1, kind, at), "broker 1", at, at)
        for turn in range(1000)
        for at, kind in ((turn * 70_000, "connection-lost"), (turn * 70_000 + 20_000, "client-disconnected"))
    ]
    chain = Causes(happenings, KNOWN.rules).chain(happenings[-1])
    assert [link.happening.kind for link in chain] == ["connection-lost", "client-disconnected"]
