"""Kinds of removed executors, by Spark's reasons."""

from holdfast.driver.application.executor_counts import ExecutorCounter


def test_executors_that_the_driver_released_are_not_lost() -> None:
    counter = ExecutorCounter()
    for reason in (
        "Executor killed by driver.",
        "Executor decommission: Executor 1 is decommissioned.",
        "Finished decommissioning",
        "Worker shutting down",
        "Command exited with code 137",
    ):
        counter.record_removal(reason)
    counts = counter.totals(alive=3)
    assert (counts.alive, counts.lost, counts.decommissioned) == (3, 2, 2)
    assert counts.last_loss == "Command exited with code 137"
