"""Spec of a job whose submitter chose no restart strategy."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.client.deployment.apply import Action, compare
from holdfast.client.deployment.job_file import JobFile, read_job_file
from holdfast.client.deployment.job_request import check_request
from holdfast.model.identifiers import JobId
from holdfast.model.job import JobState, Spec
from holdfast.model.phase import Phase
from holdfast.zk.records.stored_job import StoredJob


def requested_spec(directory: Path, restart: str | None) -> Spec:
    script = directory / "words.py"
    script.write_text("")
    request = check_request(script, name=None, restart_strategy=restart, slots=1, arguments=(), conf={}, py_files=())
    return request.spec({script: "0" * 64})


def job_file(directory: Path, restart: str) -> JobFile:
    (directory / "words.py").write_text("")
    file = directory / "words.toml"
    file.write_text(f'script = "words.py"\n{restart}')
    return read_job_file(file)


@pytest.mark.parametrize(
    ("restart", "strategy", "is_default"),
    [(None, "exponential", True), ("exponential", "exponential", False), ("never", "never", False)],
)
def test_spec_says_whether_the_strategy_was_chosen(
    tmp_path: Path, restart: str | None, strategy: str, is_default: bool
) -> None:
    spec = requested_spec(tmp_path, restart)
    assert (spec.restart, spec.restart_is_default) == (strategy, is_default)


@pytest.mark.parametrize(
    ("stored_is_default", "line", "action"),
    [
        (True, "", Action.NOTHING),
        (False, "", Action.NOTHING),  # submitted by an earlier release: no upgrade for the flag alone
        (True, 'restart = "exponential"', Action.UPGRADE),
        (False, 'restart = "exponential"', Action.NOTHING),
    ],
)
def test_apply_upgrades_a_job_whose_file_now_chooses_the_default_strategy(
    tmp_path: Path, stored_is_default: bool, line: str, action: Action
) -> None:
    file = job_file(tmp_path, line)
    stored = replace(file.spec, restart_is_default=stored_is_default)
    job = StoredJob(JobId("j1"), "words", 0, spec=stored, state=JobState(Phase.RUNNING, "runs"))
    (change,) = compare([file], [job])
    assert change.action is action
