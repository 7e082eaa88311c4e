"""Bulk run of schedules: arguments, violations, summary and exit code."""

import pytest

from tests.sim.bulk import Outcome, Summary, main, parse


def test_summary_counts_schedules_by_scenario_faults_drivers_and_violations() -> None:
    summary = Summary("job")
    summary.add(Outcome("storm", ("server killed", "link cut"), drivers=3))
    summary.add(Outcome("storm", ("link cut",), drivers=2, violation="seed 7 (storm: link cut): two drivers"))
    summary.add(Outcome("blip"))
    assert str(summary) == "3 job schedules (blip 1, storm 2), 2 kinds of faults, 5 drivers, 1 violations"


@pytest.mark.parametrize(
    "arguments", [[], ["--schedules", "0"], ["--schedules", "1", "--from", "-1"], ["--schedules", "1", "--variant", "x"]]
)
def test_impossible_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(arguments)


@pytest.mark.slow
def test_bulk_run_covers_every_seed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schedules", "20", "--from", "4", "--leadership", "--workers", "2"]) == 0
    assert capsys.readouterr().out.startswith("20 leadership schedules (crash 4, handover 6, loss 4, storm 6), ")


@pytest.mark.slow
def test_violation_is_printed_with_its_seed_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    variant = "session closed before driver is dead"
    assert main(["--schedules", "2", "--from", "4", "--workers", "1", "--variant", variant]) == 1
    violation, *_, summary = capsys.readouterr().out.splitlines()
    assert violation.startswith("seed 4 (handover: ")
    assert violation.endswith(f"replay: python -m tests.sim.jobs.schedule 4 '{variant}'")
    assert ", 1 violations" in summary or ", 2 violations" in summary
