"""HTML page: its data is complete and small, and log lines remain text."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.explain.report.html import render_page
from holdfast.explain.report.html.data import TEMPLATES_LISTED_MAX, page_data
from tests.explain.many_occurrences import answer_with_many_occurrences
from tests.harness.explain_in_process import explain_logs
from tests.harness.log_situations import NO_LOGS, RESURRECTION, at, healthy_log, stall_line, zookeeper_line

ATTACK = "</script><!--<script><img src=x onerror=document.title='broken'>"


def embedded_data(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="answer">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_page_data_has_every_occurrence_with_time_component_and_line(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(RESURRECTION)
    answer = explain_logs(tmp_path / "report.txt")
    document = page_data(answer)
    columns = document["columns"]
    begin = 0
    for number, one in enumerate(answer.occurrences):
        at_ = {name: column[number] for name, column in columns.items()}
        begin += at_["begin"]
        assert (begin, begin + at_["end"], begin + at_["last"]) == (one.begin_ms, one.end_ms, one.last_ms)
        assert document["components"][at_["component"]]["name"] == one.component
        assert (document["kinds"][at_["kind"]], document["sentences"][at_["says"]]) == (one.kind, one.event.description)
        assert document["files"][at_["file"]] == answer.scan.files[one.event.file]
        assert (at_["line"], at_["offset"], at_["text"]) == (one.event.line, one.event.offset, one.event.text)
        assert at_["count"] == one.count
    assert {len(column) for column in columns.values()} == {len(answer.occurrences)}


def test_evidence_and_chains_are_indexes_of_occurrences(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(RESURRECTION)
    answer = explain_logs(tmp_path / "report.txt")
    for shown, one in zip(page_data(answer)["diagnoses"], answer.diagnoses, strict=True):
        assert [answer.occurrences[number] for number in shown["evidence"]] == list(one.evidence)
        assert [(answer.occurrences[n], rule, delay) for n, rule, delay in shown["chain"]] == [
            (link.occurrence, link.rule, link.delay_ms) for link in one.chain
        ]


def test_templates_add_up_to_the_records(tmp_path: Path) -> None:
    unique = "".join(
        zookeeper_line(at("13:00:00"), 1, "main", f"{'a' * n} is new") for n in range(1, TEMPLATES_LISTED_MAX + 50)
    )
    (tmp_path / "zk1.log").write_text(healthy_log(1, at("13:00:00")) + unique)
    answer = explain_logs(tmp_path / "zk1.log")
    templates = page_data(answer)["templates"]
    assert len(templates["named"]) == TEMPLATES_LISTED_MAX
    assert templates["others"] > 0
    assert sum(template[0] for template in templates["named"]) + templates["other_records"] == answer.scan.counts.records


@pytest.mark.slow
def test_page_data_needs_few_bytes_per_occurrence() -> None:
    answer = answer_with_many_occurrences(100)
    document = page_data(answer)
    lines = sum(len(text) + 3 for text in document["columns"].pop("text"))
    assert lines > 0
    assert len(json.dumps(document["columns"], separators=(",", ":"))) < 50 * len(answer.occurrences)
    assert len(document["sentences"]) < 20


def test_text_of_a_line_or_a_file_name_cannot_close_the_script_element(tmp_path: Path) -> None:
    file = tmp_path / "a<b>.log"
    file.write_text(stall_line(1, at("13:00:00"), 4000).strip() + ATTACK + "\n")
    text = render_page(explain_logs(file))
    assert "<img" not in text
    assert "<b>" not in text
    assert text.count("<script") == text.count("</script>") == 2
    assert embedded_data(text)["columns"]["text"][0].endswith(ATTACK)
    assert embedded_data(text)["files"] == [str(file)]


def test_template_placeholders_in_log_lines_are_not_substituted(tmp_path: Path) -> None:
    (tmp_path / "zk1.log").write_text(stall_line(1, at("13:00:00"), 4000).strip() + " $script ${data}\n")
    assert embedded_data(render_page(explain_logs(tmp_path / "zk1.log")))["columns"]["text"][0].endswith("$script ${data}")


def test_content_security_policy_allows_only_this_script(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(stall_line(1, at("13:00:00"), 4000))
    text = render_page(explain_logs(tmp_path / "x.log"))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy.startswith("default-src 'none'; ")
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "unsafe" not in policy
    assert "innerHTML" not in script and "http" not in script


def test_answer_without_diagnoses_is_rendered(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(NO_LOGS)
    document = embedded_data(render_page(explain_logs(tmp_path / "x.txt")))
    assert document["diagnoses"] == []
    assert document["columns"]["begin"] == []
    assert "no log lines" in document["summary"]
