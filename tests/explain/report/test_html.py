"""What the page is told is all there is, and small; and what logs say stays text."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from holdfast.explain.report.html import page
from holdfast.explain.report.html.data import LOOKS_MAX, data
from tests.explain.situations import NO_LOGS, RESURRECTION, at, quiet, stall, zookeeper
from tests.explain.thousands import thousands
from tests.harness.explain_in_process import asked

ATTACK = "</script><!--<script><img src=x onerror=document.title='broken'>"


def told_by(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="told">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_every_happening_is_there_with_its_time_place_and_line(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(RESURRECTION)
    answer = asked(tmp_path / "report.txt")
    told = data(answer)
    columns = told["happenings"]
    begin = 0
    for number, one in enumerate(answer.happenings):
        at_ = {name: column[number] for name, column in columns.items()}
        begin += at_["begin"]
        assert (begin, begin + at_["end"], begin + at_["last"]) == (one.begin_ms, one.end_ms, one.last_ms)
        assert told["components"][at_["component"]]["name"] == one.component
        assert (told["kinds"][at_["kind"]], told["sentences"][at_["says"]]) == (one.kind, one.event.says)
        assert told["files"][at_["file"]] == answer.gathered.files[one.event.file]
        assert (at_["line"], at_["offset"], at_["text"]) == (one.event.line, one.event.offset, one.event.text)
        assert at_["count"] == one.count
    assert {len(column) for column in columns.values()} == {len(answer.happenings)}


def test_evidence_and_chains_are_numbers_of_happenings(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(RESURRECTION)
    answer = asked(tmp_path / "report.txt")
    for shown, one in zip(data(answer)["diagnoses"], answer.diagnoses, strict=True):
        assert [answer.happenings[number] for number in shown["evidence"]] == list(one.evidence)
        assert [(answer.happenings[n], rule, delay) for n, rule, delay in shown["chain"]] == [
            (link.happening, link.rule, link.delay_ms) for link in one.chain
        ]


def test_looks_add_up_to_the_records(tmp_path: Path) -> None:
    strange = "".join(zookeeper(at("13:00:00"), 1, "main", f"{'a' * n} is new") for n in range(1, LOOKS_MAX + 50))
    (tmp_path / "zk1.log").write_text(quiet(1, at("13:00:00")) + strange)
    answer = asked(tmp_path / "zk1.log")
    looks = data(answer)["looks"]
    assert len(looks["named"]) == LOOKS_MAX
    assert looks["others"] > 0
    assert sum(look[0] for look in looks["named"]) + looks["other_records"] == answer.gathered.counts.records


def test_a_hundred_thousand_happenings_take_few_bytes_each_besides_their_lines() -> None:
    answer = thousands(100)
    told = data(answer)
    lines = sum(len(text) + 3 for text in told["happenings"].pop("text"))
    assert lines > 0
    assert len(json.dumps(told["happenings"], separators=(",", ":"))) < 50 * len(answer.happenings)
    assert len(told["sentences"]) < 20


def test_nothing_in_a_line_or_a_name_ends_the_element_that_it_stands_in(tmp_path: Path) -> None:
    file = tmp_path / "a<b>.log"
    file.write_text(stall(1, at("13:00:00"), 4000).strip() + ATTACK + "\n")
    text = page(asked(file))
    assert "<img" not in text
    assert "<b>" not in text
    assert text.count("<script") == text.count("</script>") == 2
    assert told_by(text)["happenings"]["text"][0].endswith(ATTACK)
    assert told_by(text)["files"] == [str(file)]


def test_what_looks_like_a_place_for_something_in_the_page_is_not_filled(tmp_path: Path) -> None:
    (tmp_path / "zk1.log").write_text(stall(1, at("13:00:00"), 4000).strip() + " $script ${data}\n")
    assert told_by(page(asked(tmp_path / "zk1.log")))["happenings"]["text"][0].endswith("$script ${data}")


def test_the_policy_lets_in_this_script_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(stall(1, at("13:00:00"), 4000))
    text = page(asked(tmp_path / "x.log"))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy.startswith("default-src 'none'; ")
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "unsafe" not in policy
    assert "innerHTML" not in script and "http" not in script


def test_an_answer_without_diagnoses_is_a_page(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(NO_LOGS)
    told = told_by(page(asked(tmp_path / "x.txt")))
    assert told["diagnoses"] == []
    assert told["happenings"]["begin"] == []
    assert "no log lines" in told["summary"]
