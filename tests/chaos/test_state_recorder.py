"""Evidence that a runner has written its lease, from repeated reads of the lease's version."""

from tests.chaos.state_recorder import LeaseWrites


def test_lease_was_written_after_the_read_that_still_saw_the_old_version() -> None:
    writes = LeaseWrites()
    assert writes.add(10.0, {"j1": (5, 1), "j2": (6, 1)}) == {}, "the first read proves nothing"
    assert writes.add(11.0, {"j1": (5, 2), "j2": (6, 1)}) == {"j1": 10.0}
    assert writes.add(12.0, {"j1": (5, 2), "j2": (9, 0)}) == {"j1": 10.0, "j2": 11.0}, "a new lease is a write"


def test_lease_of_restored_data_counts_only_after_its_next_write() -> None:
    writes, healed_at = LeaseWrites(), 20.0
    writes.add(10.0, {"j1": (5, 40)})
    assert writes.add(21.0, {"j1": (5, 12)})["j1"] < healed_at, "the restored lease is an old one"
    assert writes.add(22.0, {"j1": (5, 12)})["j1"] < healed_at
    assert writes.add(23.0, {})["j1"] < healed_at, "its session has expired"
    assert writes.add(24.0, {"j1": (90, 0)})["j1"] < healed_at, "nobody knows when this lease was created"
    assert writes.add(25.0, {"j1": (90, 1)})["j1"] >= healed_at
