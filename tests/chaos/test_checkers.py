"""Checkers of the chaos suite, with hand-made histories: for each rule, one that breaks it and a similar one that does not."""

from dataclasses import replace

from tests.chaos.checkers import RULES, check_history
from tests.chaos.history import (
    ACKNOWLEDGED,
    REFUSED,
    UNKNOWN,
    FaultRecord,
    HeartbeatSeries,
    History,
    JobSample,
    OperationRecord,
    RunRecord,
    SteadyJob,
    WitnessedProcess,
)

RUN = RunRecord(seed=1, kinds=("kill:agent",), session_timeout_s=3.0, margin_s=1.2, started_at=0.0)
EMPTY = History(run=RUN, ended_at=1000.0)


def process(attempt: int, first: float, last: float, *, job: str = "j", pid: int = 0, driver: bool = True) -> WitnessedProcess:
    return WitnessedProcess(job, attempt, f"{job}-{attempt}", pid or attempt, driver, first, last, gone_at=last + 0.02)


def heartbeats(attempt: int, *times: float, job: str = "j") -> HeartbeatSeries:
    return HeartbeatSeries(job, attempt, f"{job}-{attempt}", attempt, times)


def fault(number: int, at: float, *, kind: str = "kill:agent", **fields: object) -> FaultRecord:
    record = FaultRecord(number, kind, "", at, at + 1, at + 3, 30.0, (), ())
    return replace(record, **fields)  # type: ignore[arg-type]  # any fields


def operation(name: str, at: float, outcome: str = ACKNOWLEDGED, *, job: str = "j", request: str = "") -> OperationRecord:
    return OperationRecord(name, job, request, at - 0.1, at, outcome)


def broken_rules(history: History) -> set[str]:
    return {violation.rule for violation in check_history(history)}


def test_history_without_faults_has_no_violation() -> None:
    assert check_history(replace(EMPTY, processes=(process(1, 0, 10), process(2, 10.1, 20)))) == []


def test_job_of_a_lost_node_that_starts_nowhere_else_in_time_is_a_violation() -> None:
    lost = fault(
        1, 10, kind="lose:node", healed_at=60.0, recovered_at=62.0, may_restart=("j",), must_move=("j",), move_bound_s=40.0
    )
    for times, rules in (
        ((5, 10, 11), {"jobs of lost nodes move"}),
        ((51, 52), {"jobs of lost nodes move"}),
        ((49, 52), set()),
    ):
        history = replace(EMPTY, faults=(lost,), heartbeats=(heartbeats(1, 0, 9.9), heartbeats(2, *times)))
        assert broken_rules(history) - {"evidence is complete", "single driver by heartbeats"} == rules


def test_two_processes_of_one_job_at_once_break_the_kernel_rule() -> None:
    history = replace(EMPTY, processes=(process(1, 0, 10), process(2, 9, 20)))
    assert broken_rules(history) == {"single driver by kernel"}
    (violation,) = check_history(history)
    assert (violation.at, violation.job) == (9, "j") and "together for 1.00 s" in violation.text


def test_leftover_child_process_of_an_earlier_attempt_breaks_the_kernel_rule() -> None:
    leftover = process(1, 1, 15, pid=99, driver=False)
    assert broken_rules(replace(EMPTY, processes=(process(1, 0, 10), leftover, process(2, 11, 20)))) == {
        "single driver by kernel"
    }


def test_long_lived_process_is_compared_with_every_later_attempt() -> None:
    processes = (process(1, 0, 100), process(2, 10, 20), process(3, 30, 40))
    assert [each.at for each in check_history(replace(EMPTY, processes=processes))] == [10, 30]


def test_processes_of_one_attempt_and_of_other_jobs_may_overlap() -> None:
    child = process(1, 1, 9, pid=50, driver=False)
    assert check_history(replace(EMPTY, processes=(process(1, 0, 10), child, process(1, 0, 10, job="other")))) == []


def test_heartbeat_after_one_of_a_later_attempt_breaks_the_heartbeat_rule() -> None:
    processes = (process(1, 0, 3), process(2, 4, 6))
    overlapping = replace(EMPTY, processes=processes, heartbeats=(heartbeats(1, 1, 2, 5.5), heartbeats(2, 5, 6)))
    assert broken_rules(overlapping) == {"single driver by heartbeats"}
    apart = replace(EMPTY, processes=processes, heartbeats=(heartbeats(1, 1, 2, 3), heartbeats(2, 5, 6)))
    assert check_history(apart) == []


def test_attempt_that_starts_after_an_acknowledged_cancel_is_a_violation() -> None:
    late = replace(EMPTY, operations=(operation("cancel", 10),), processes=(process(1, 0, 9), process(2, 25, 30)))
    assert broken_rules(late) == {"cancelled jobs stay dead"}
    just_started = replace(late, processes=(process(1, 0, 9), process(2, 10.5, 11)))
    assert check_history(just_started) == []


def test_cancel_with_an_unknown_outcome_promises_nothing() -> None:
    history = replace(EMPTY, operations=(operation("cancel", 10, UNKNOWN),), processes=(process(1, 0, 9), process(2, 25, 30)))
    assert check_history(history) == []


def test_driver_that_lives_after_the_user_saw_the_end_is_a_violation() -> None:
    reported = replace(EMPTY, operations=(operation("ended", 10),), processes=(process(1, 0, 10.2),))
    assert broken_rules(reported) == {"cancelled jobs stay dead"}
    assert check_history(replace(reported, processes=(process(1, 0, 9.9),))) == []


def test_heartbeat_after_the_user_saw_the_end_is_a_violation() -> None:
    history = replace(
        EMPTY, operations=(operation("ended", 10),), processes=(process(1, 0, 9),), heartbeats=(heartbeats(1, 1, 12),)
    )
    assert broken_rules(history) == {"cancelled jobs stay dead"}


def test_driver_that_ends_after_a_fault_that_must_not_restart_it_is_a_violation() -> None:
    history = replace(EMPTY, steady=(SteadyJob("j", "steady"),), faults=(fault(1, 10), fault(2, 20)))
    restarted = replace(history, processes=(process(1, 0, 12), process(2, 13, 100)))
    assert broken_rules(restarted) == {"promised drivers stay"}
    assert [each.fault for each in check_history(restarted)] == [1]
    allowed = replace(restarted, faults=(fault(1, 10, may_restart=("j",)), fault(2, 20)))
    assert check_history(allowed) == []
    kept = replace(history, processes=(process(1, 0, 100),))
    assert check_history(kept) == []


def test_driver_that_dies_at_a_fault_may_have_been_seen_last_before_it() -> None:
    steady = replace(EMPTY, steady=(SteadyJob("j", "steady"),), faults=(fault(1, 10), fault(2, 20, may_restart=("j",))))
    around = replace(process(1, 0, 19.99), gone_at=20.01)
    assert check_history(replace(steady, processes=(around,))) == []
    forbidden = replace(steady, faults=(fault(1, 10), fault(2, 20)))
    assert broken_rules(replace(forbidden, processes=(around,))) == {"promised drivers stay"}


def test_driver_that_is_alive_at_the_end_was_not_restarted() -> None:
    steady = replace(EMPTY, steady=(SteadyJob("j", "steady"),), faults=(fault(1, 10),))
    assert check_history(replace(steady, processes=(replace(process(1, 0, 12), gone_at=None),))) == []


def test_late_end_of_a_driver_belongs_to_the_fault_before_it() -> None:
    steady = replace(EMPTY, steady=(SteadyJob("j", "steady"),), faults=(fault(1, 10), fault(2, 20, may_restart=("j",))))
    assert [each.fault for each in check_history(replace(steady, processes=(process(1, 0, 19.5),)))] == [1]
    assert check_history(replace(steady, processes=(process(1, 0, 20.5),))) == []


def test_cluster_that_does_not_recover_in_time_is_a_violation() -> None:
    assert broken_rules(replace(EMPTY, faults=(fault(1, 10, recovered_at=None),))) == {"recovery in time"}
    assert broken_rules(replace(EMPTY, faults=(fault(1, 10, recovered_at=42.0),))) == {"recovery in time"}
    assert check_history(replace(EMPTY, faults=(fault(1, 10, recovered_at=40.0),))) == []


def test_attempt_number_that_goes_back_in_zookeeper_is_a_violation() -> None:
    samples = (JobSample(1, "j", "RUNNING", 3, 0), JobSample(2, "j", "RUNNING", 2, 0))
    assert broken_rules(replace(EMPTY, samples=samples)) == {"attempts grow"}
    assert check_history(replace(EMPTY, samples=samples[::-1])) != []
    assert check_history(replace(EMPTY, samples=(replace(samples[0], attempt=1), samples[1]))) == []


def test_attempt_number_that_runs_twice_is_a_violation() -> None:
    again = replace(process(1, 11, 20, pid=77), nonce="j-again")
    assert broken_rules(replace(EMPTY, processes=(process(1, 0, 10), again))) == {"attempts grow"}


def test_job_that_leaves_a_final_phase_is_a_violation() -> None:
    samples = (JobSample(1, "j", "FAILED", 1, 0), JobSample(2, "j", "RUNNING", 2, 0))
    assert broken_rules(replace(EMPTY, samples=samples)) == {"final phases stay"}


def test_request_that_creates_two_jobs_is_a_violation() -> None:
    stored = tuple(JobSample(9, job, "RUNNING", 1, 0) for job in ("a", "b"))
    twice = (operation("submit", 1, job="a", request="r"), operation("submit", 2, job="b", request="r"))
    assert broken_rules(replace(EMPTY, samples=stored, operations=twice)) == {"requests create one job"}
    unknown_first = (operation("submit", 1, UNKNOWN, job="", request="r"), twice[1])
    assert check_history(replace(EMPTY, samples=stored, operations=unknown_first)) == []


def test_acknowledged_submission_that_is_not_stored_is_a_violation() -> None:
    other = (JobSample(9, "other", "RUNNING", 1, 0),)
    assert broken_rules(replace(EMPTY, samples=other, operations=(operation("submit", 1),))) == {"submissions are kept"}
    assert check_history(replace(EMPTY, samples=other, operations=(operation("submit", 1, UNKNOWN),))) == []
    assert check_history(replace(EMPTY, samples=other, operations=(operation("submit", 10),))) == []


def test_cancelled_job_whose_cancels_were_all_refused_is_a_violation() -> None:
    samples = (JobSample(9, "j", "CANCELLED", 1, 0),)
    refused = operation("cancel", 1, REFUSED)
    assert broken_rules(replace(EMPTY, samples=samples, operations=(refused,))) == {"refusals have no effect"}
    assert broken_rules(replace(EMPTY, samples=samples)) == {"refusals have no effect"}
    maybe = operation("cancel", 2, UNKNOWN)
    assert check_history(replace(EMPTY, samples=samples, operations=(refused, maybe))) == []


def test_witness_that_ends_before_the_last_fault_is_a_violation() -> None:
    assert broken_rules(replace(EMPTY, faults=(fault(1, 10),), ended_at=5.0)) == {"evidence is complete"}


def test_driver_that_the_witness_never_saw_is_a_violation() -> None:
    history = replace(EMPTY, heartbeats=(heartbeats(1, 1, 2, 3),))
    assert broken_rules(history) == {"evidence is complete"}
    assert check_history(replace(history, longest_gap_s=5.0)) == []


def test_every_checker_is_a_rule_of_the_suite() -> None:
    from tests.chaos import checkers

    named = {value for name, value in vars(checkers).items() if name.startswith("check_") and name != "check_history"}
    assert named == set(RULES)
