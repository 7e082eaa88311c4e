"""Analysis of many events: its time is linear, and cause chains equal those of an exhaustive search."""

import contextlib
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from holdfast.explain.analyze import analyze
from holdfast.explain.event import LogEvent
from holdfast.explain.library import load_library
from holdfast.explain.library.causal_rule import CausalRule
from holdfast.explain.timeline.causes import SECOND_MS, SLACK_MS, CauseFinder
from holdfast.explain.timeline.occurrence import Occurrence, fold_repetitions
from holdfast.explain.timeline.timeline import Timeline
from tests.harness.many_events import make_events

KNOWN = load_library()
FEW, MANY = 5000, 20_000
GROWTH_MAX = 2.0
"""Growth of the number of calls relative to the number of events. Quadratic time would give four."""


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
def test_analysis_takes_linear_time(kinds: frozenset[str], span_ms: int, files: int, report: Callable[[str], None]) -> None:
    calls_made = []
    for number in (FEW, MANY):
        scan = make_events(number, KNOWN, kinds, files, span_ms)
        with _count_calls() as calls:
            found = analyze(scan, KNOWN)
            found.as_json()
        calls_made.append(calls.total())
        assert len(found.occurrences) > number // 10
        assert sum(one.count for one in found.occurrences) == number
        assert len(found.summary) < 10_000
    report(f"explain: {calls_made[0]:,} calls for {FEW:,} events, {calls_made[1]:,} for {MANY:,}")
    assert calls_made[1] / calls_made[0] < GROWTH_MAX * MANY / FEW


@contextlib.contextmanager
def _count_calls() -> Iterator[Counter[str]]:
    """Count function calls: a measure that does not depend on the machine or its load."""
    counter: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, argument: counter.update((event,)))
    try:
        yield counter
    finally:
        sys.setprofile(None)


@pytest.mark.slow
def test_cause_is_the_latest_that_a_rule_allows() -> None:
    """Compare with a search through all pairs."""
    events = make_events(600, KNOWN, span_ms=300_000, files=3).events
    occurrences = fold_repetitions(Occurrence(event, f"server {event.file}", event.ms or 0, event.ms or 0) for event in events)
    causes = CauseFinder(Timeline(occurrences), KNOWN.rules)
    numbers = {id(one): number for number, one in enumerate(occurrences)}
    chains = [causes.chain(one) for one in occurrences]
    assert sum(len(chain) > 1 for chain in chains) > 50
    for one, chain in zip(occurrences, chains, strict=True):
        assert chain[-1].occurrence is one
        for before, link in itertools.pairwise(chain):
            assert (before.occurrence, link.rule) == _search_all_pairs(occurrences, numbers[id(link.occurrence)])


def _search_all_pairs(occurrences: list[Occurrence], number: int) -> tuple[Occurrence, str] | None:
    effect = occurrences[number]
    for rule in KNOWN.rules:
        allowed = [
            (cause.begin_ms, -other)
            for other, cause in enumerate(occurrences)
            if effect.kind in rule.effect and cause.kind in rule.cause and _fits(occurrences, rule, other, number)
        ]
        if allowed:
            return occurrences[-max(allowed)[1]], rule.description
    return None


def _fits(occurrences: list[Occurrence], rule: CausalRule, other: int, number: int) -> bool:
    cause, effect = occurrences[other], occurrences[number]
    slack_ms = SECOND_MS if effect.begin_ms % SECOND_MS == 0 else SLACK_MS
    in_time = -slack_ms <= effect.begin_ms - cause.begin_ms <= rule.within_ms
    alike = all(cause.value(name) and cause.value(name) == effect.value(name) for name in rule.same)
    alike = alike and not any(cause.value(name) and cause.value(name) == effect.value(name) for name in rule.differ)
    before = other < number or (other != number and cause.kind not in rule.effect)
    return in_time and alike and before and not any(_rules_out(rule, cause, effect, one) for one in occurrences)


def _rules_out(rule: CausalRule, cause: Occurrence, effect: Occurrence, one: Occurrence) -> bool:
    of_one = one.component == effect.component and len({one.value("session"), effect.value("session")} - {""}) < 2
    since = one.kind in rule.since and of_one and cause.begin_ms < one.begin_ms < effect.begin_ms
    just_before = cause.begin_ms - rule.within_ms <= one.begin_ms <= cause.begin_ms
    return since or (one.kind in rule.unless and one.component == cause.component and just_before)


def test_chain_of_a_recurring_condition_ends_before_it_repeats() -> None:
    """A chain contains each kind at each component once."""
    occurrences = [
        Occurrence(LogEvent(kind, "client", kind, 0, at, 1, kind, at), "broker 1", at, at)
        for turn in range(1000)
        for at, kind in ((turn * 70_000, "connection-lost"), (turn * 70_000 + 20_000, "client-disconnected"))
    ]
    chain = CauseFinder(Timeline(occurrences), KNOWN.rules).chain(occurrences[-1])
    assert [link.occurrence.kind for link in chain] == ["connection-lost", "client-disconnected"]
