"""Kinds of removed executors, by Spark's reasons."""

from dataclasses import dataclass

from holdfast.driver.application.executor_counts import ExecutorCounter


@dataclass(frozen=True)
class Executor:
    """Executor as Spark's status store lists it, with a Scala option for the reason."""

    name: str
    reason: str | None = None

    def id(self) -> str:
        return self.name

    def isActive(self) -> bool:
        return self.reason is None

    def removeReason(self) -> "Option":
        return Option(self.reason)


@dataclass(frozen=True)
class Option:
    value: str | None

    def isDefined(self) -> bool:
        return self.value is not None

    def get(self) -> str:
        assert self.value is not None
        return self.value


class Sequence:
    def __init__(self, items: list[Executor]) -> None:
        self._items = items

    def size(self) -> int:
        return len(self._items)

    def apply(self, index: int) -> Executor:
        return self._items[index]


class StatusStore:
    def __init__(self, *executors: Executor) -> None:
        self._executors = executors

    def executorList(self, active_only: bool) -> Sequence:
        return Sequence([each for each in self._executors if each.isActive() or not active_only])


DRIVER, FIRST, SECOND = Executor("driver"), Executor("1"), Executor("2")


def test_each_loss_is_counted_once_also_after_spark_has_forgotten_it() -> None:
    counter, dead = ExecutorCounter(), Executor("1", "Worker lost")
    counts = [
        counter.count(store)
        for store in (
            StatusStore(),
            StatusStore(DRIVER, FIRST),
            StatusStore(DRIVER, dead, SECOND),
            StatusStore(DRIVER, dead, SECOND),
            StatusStore(DRIVER, SECOND),
        )
    ]
    assert [(count.alive, count.lost) for count in counts] == [(0, 0), (1, 0), (1, 1), (1, 1), (1, 1)]
    assert counts[-1].last_loss == "Worker lost"


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


def test_reason_of_a_loss_in_yarn_is_one_short_line() -> None:
    counter = ExecutorCounter()
    counter.record_removal(
        "Container from a bad node: container_1_2 on host: n1. Exit status: 137. Possible causes: Unknown exit code (137)"
        " Diagnostics: [2026-11-18 21:15:34.809]Container killed on request.\nKilled by external signal\n."
    )
    assert counter.totals(0).last_loss == "Container from a bad node: container_1_2 on host: n1. Exit status: 137."
