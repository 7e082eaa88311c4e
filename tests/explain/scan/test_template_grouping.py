"""Records are grouped by what they look like: against labels, and against what others make of the same lines."""

from pathlib import Path

from bench.explain_templates import accuracy, drain, looks, of_loghub, of_our_own


def test_accuracy_counts_the_lines_whose_group_is_exactly_their_template() -> None:
    labels = ["a", "a", "b", "b", "c", "d"]
    assert accuracy([1, 1, 2, 2, 3, 4], labels) == 1
    assert accuracy([1, 5, 2, 2, 3, 4], labels) == 4 / 6, "one template in two groups"
    assert accuracy([1, 1, 2, 2, 3, 3], labels) == 4 / 6, "two templates in one group"


def test_lines_that_differ_in_numbers_are_grouped_as_well_as_drain3_does() -> None:
    ours = of_our_own()
    assert accuracy(looks(ours.messages), ours.labels) >= max(0.99, accuracy(drain(ours.messages), ours.labels))


def test_samples_are_read_as_loghub_writes_them(tmp_path: Path) -> None:
    rows = ["LineId,Content,EventId,EventTemplate", '1,"First is 0x0, here",E16,"First is <*>, here"', "2,LOOKING,E26,LOOKING"]
    (tmp_path / "sample.csv").write_text("\n".join(rows))
    found = of_loghub(tmp_path / "sample.csv", "Zookeeper")
    assert found.messages == ("First is 0x0, here", "LOOKING")
    assert found.labels == ("E16", "E26")
