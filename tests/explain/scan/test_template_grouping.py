"""Accuracy of template grouping, measured with labelled lines and compared with Drain3."""

from pathlib import Path

from bench.explain_templates import generate_lines, group_by_template, group_with_drain3, grouping_accuracy, read_loghub


def test_accuracy_is_the_share_of_lines_whose_group_is_exactly_their_template() -> None:
    labels = ["a", "a", "b", "b", "c", "d"]
    assert grouping_accuracy([1, 1, 2, 2, 3, 4], labels) == 1
    assert grouping_accuracy([1, 5, 2, 2, 3, 4], labels) == 4 / 6, "one template in two groups"
    assert grouping_accuracy([1, 1, 2, 2, 3, 3], labels) == 4 / 6, "two templates in one group"


def test_grouping_is_at_least_as_accurate_as_drain3() -> None:
    lines = generate_lines()
    drain3 = grouping_accuracy(group_with_drain3(lines.messages), lines.labels)
    assert grouping_accuracy(group_by_template(lines.messages), lines.labels) >= max(0.99, drain3)


def test_loghub_samples_are_read(tmp_path: Path) -> None:
    rows = ["LineId,Content,EventId,EventTemplate", '1,"First is 0x0, here",E16,"First is <*>, here"', "2,LOOKING,E26,LOOKING"]
    (tmp_path / "sample.csv").write_text("\n".join(rows))
    found = read_loghub(tmp_path / "sample.csv", "Zookeeper")
    assert found.messages == ("First is 0x0, here", "LOOKING")
    assert found.labels == ("E16", "E26")
