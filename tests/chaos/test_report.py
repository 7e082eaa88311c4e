"""Report of the chaos suite: unavailability per kind of fault, and the page."""

from dataclasses import replace

from tests.chaos.checkers import Violation
from tests.chaos.history import SteadyJob
from tests.chaos.report import render_report
from tests.chaos.test_checkers import EMPTY, fault, heartbeats, process
from tests.chaos.unavailability import heartbeat_gaps, percentile, summarize

HISTORY = replace(
    EMPTY,
    steady=(SteadyJob("j", "first"), SteadyJob("k", "second")),
    faults=(fault(1, 10, kind="kill:runner", may_restart=("j",)), fault(2, 20), fault(3, 30, kind="kill:runner")),
    processes=(process(1, 0, 10), process(2, 12, 40)),
    heartbeats=(
        heartbeats(1, *(0.05 * number for number in range(201))),
        heartbeats(2, *(12.5 + 0.05 * number for number in range(500))),
        heartbeats(1, *(0.1 * number for number in range(400)), job="k"),
    ),
)


def test_unavailability_is_the_longest_pause_of_heartbeats_across_attempts() -> None:
    assert heartbeat_gaps(HISTORY, "j") == [(10.0, 12.5)]
    summaries = {each.kind: each for each in summarize(HISTORY)}
    runner, agent = summaries["kill:runner"], summaries["kill:agent"]
    assert (runner.faults, round(runner.p50_s, 3), round(runner.p99_s, 3), round(runner.max_s, 3)) == (2, 0, 2.45, 2.45)
    assert (agent.faults, agent.max_s) == (1, 0)


def test_percentile_is_one_of_the_values() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.0
    assert percentile([4.0, 1.0, 3.0, 2.0], 99) == 4.0
    assert percentile([5.0], 50) == 5.0


def test_page_names_every_fault_driver_and_violation_and_refers_to_no_other_file() -> None:
    page = render_report(HISTORY, [Violation("some rule", "j", 10, "a <finding>", 1)])
    for text in ("seed 1", "kill:runner", "some rule", "a &lt;finding&gt;", "first: attempt 2, pid 2", "2.45"):
        assert text in page
    assert "http" not in page and "src=" not in page and "href=" not in page
