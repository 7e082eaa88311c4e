"""Gate for queries at checkpoint locations that the script names. A thread of the test plays the runner."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.driver.queries.location_gate import LocationGate, normalize_location
from holdfast.driver.start_refused import StartRefused, find_refusal
from holdfast.driver.stop_request import StopRequest
from holdfast.driver_protocol.control_files import (
    CLAIM_ANSWERS_FILE,
    CLAIM_REQUESTS_FILE,
    read_control_file,
    request_stop,
    write_control_file,
)
from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.driver_protocol.exit_record import CHECKPOINT_CLAIMED
from holdfast.driver_protocol.location_claim import ClaimAnswer, claim_answers_to_json, parse_claim_requests


@pytest.mark.parametrize(
    ("location", "normal"),
    [
        ("/a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/./b/../c", "/a/c"),
        ("//a//b", "/a/b"),
        ("relative/place", "/jobs/relative/place"),
        ("s3a://bucket/a/../b/", "s3a://bucket/b"),
        ("hdfs://host:9000/a", "hdfs://host:9000/a"),
        ("hdfs:///a", "hdfs:///a"),
    ],
)
def test_location_is_normalized_as_hadoop_does(location: str, normal: str) -> None:
    assert normalize_location(location, directory="/jobs") == normal
    assert normalize_location(location, directory="/jobs", default_filesystem="file:///") == normal


def test_location_without_a_scheme_is_on_the_default_file_system() -> None:
    assert normalize_location("/a/../b", default_filesystem="hdfs://host:9000/") == "hdfs://host:9000/b"
    assert normalize_location("file:/a", default_filesystem="hdfs://host:9000") == "/a"
    assert normalize_location("relative", default_filesystem="hdfs://host:9000") == "relative"


class Runner:
    """Runner that refuses locations whose path contains `taken`."""

    def __init__(self, control: Path) -> None:
        self.control = control
        self.asked: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Runner":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        answers: dict[int, ClaimAnswer] = {}
        while not self._stop.wait(0.01):
            for request in parse_claim_requests(read_control_file(self.control, CLAIM_REQUESTS_FILE) or {}):
                if request.number not in answers:
                    self.asked.append(request.location)
                    refusal = "it belongs to the job j1" if "taken" in request.location else ""
                    answers[request.number] = ClaimAnswer(request.number, refusal)
            write_control_file(str(self.control), CLAIM_ANSWERS_FILE, claim_answers_to_json(answers.values()))


@pytest.fixture
def control(tmp_path: Path) -> Path:
    (tmp_path / "control").mkdir()
    return tmp_path / "control"


@pytest.fixture
def runner(control: Path) -> Iterator[Runner]:
    with Runner(control) as runner:
        yield runner


def gate(control: Path, *, claim_locations: bool = True) -> LocationGate:
    environment = DriverEnvironment(
        job="j2", checkpoint="/storage/checkpoints/j2", control_directory=str(control), claim_locations=claim_locations
    )
    return LocationGate(environment, StopRequest(str(control)))


def test_query_starts_at_a_free_location_and_not_at_a_taken_one(control: Path, runner: Runner) -> None:
    location_gate = gate(control)
    location_gate.wait_for_permission("/free", "'a'")
    with pytest.raises(StartRefused, match="it belongs to the job j1") as refused:
        location_gate.wait_for_permission("file:///is/taken", "'b'")
    record = find_refusal(refused.value)
    assert record is not None and record.condition == CHECKPOINT_CLAIMED and record.how == "failed"
    location_gate.wait_for_permission("/free", "'a'")
    assert runner.asked == ["/free", "/is/taken", "/free"]


def test_queries_of_several_threads_get_their_own_answers(control: Path, runner: Runner) -> None:
    location_gate = gate(control)
    refused: list[str] = []

    def start(name: str) -> None:
        try:
            location_gate.wait_for_permission(f"/{name}", name)
        except StartRefused:
            refused.append(name)

    names = [f"{kind}-{number}" for number in range(10) for kind in ("free", "taken")]
    threads = [threading.Thread(target=start, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(refused) == sorted(name for name in names if name.startswith("taken"))


@pytest.mark.parametrize(
    "location", [None, "/storage/checkpoints/j2/query-1", "file:/storage/checkpoints/j2", "/with\nnewline"]
)
def test_no_request_for_the_own_root_and_for_a_location_that_cannot_be_sent(control: Path, location: str | None) -> None:
    gate(control).wait_for_permission(location, "'a'")
    assert not (control / CLAIM_REQUESTS_FILE).exists()


@pytest.mark.parametrize("location", ["/storage/checkpoints/j2/../j1/query-1", "/storage/checkpoints/j22"])
def test_location_beside_the_own_root_is_requested(control: Path, runner: Runner, location: str) -> None:
    gate(control).wait_for_permission(location, "'a'")
    assert runner.asked == [normalize_location(location)]


def test_runner_of_an_older_version_is_not_asked(control: Path) -> None:
    gate(control, claim_locations=False).wait_for_permission("/taken", "'a'")
    assert not (control / CLAIM_REQUESTS_FILE).exists()
    assert DriverEnvironment.from_variables({"HOLDFAST_JOB": "j2"}).claim_locations is False


def test_stop_request_ends_the_wait(control: Path) -> None:
    request_stop(control)
    with pytest.raises(SystemExit):
        gate(control).wait_for_permission("/free", "'a'")
