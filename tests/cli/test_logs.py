"""`holdfast logs`: from the right node, through restarts of jobs and nodes."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.phase import Phase
from tests.harness.command_line import answer, refusal, run, started, told
from tests.harness.node_stub import Attempts, serving
from tests.harness.prepared_cluster import SECRET, LaidOut
from tests.harness.tcp_proxy import Proxy

pytestmark = pytest.mark.real


class Place:
    """A cluster with the log of one job on one node, and perhaps on another."""

    def __init__(self, cluster: LaidOut, directory: Path) -> None:
        self.cluster = cluster
        self._directory = directory

    def attempts(self, node: str) -> Attempts:
        return Attempts(self._directory / node)

    @contextlib.contextmanager
    def node(self, node: str) -> Iterator[None]:
        with serving(self.attempts(node), SECRET) as address:
            self.cluster.node(node, address=address)
            yield
            self.cluster.remove(self.cluster.paths.node(NodeId(node)))

    def running(self, attempt: int, node: str) -> None:
        self.cluster.settle("j1", Phase.RUNNING, f"attempt {attempt} runs on {node}", attempt=attempt, node=node)
        self.cluster.lease("j1", attempt=attempt, node=node)
        self.cluster.report("j1", attempt=attempt, node=node)

    def ended(self, attempt: int, phase: Phase, reason: str) -> None:
        self.cluster.remove(self.cluster.paths.job(JobId("j1"), "lease"))
        self.cluster.settle("j1", phase, reason, attempt=attempt)


@pytest.fixture
def place(cluster: LaidOut, tmp_path: Path) -> Place:
    cluster.submit("j1", name="words")
    return Place(cluster, tmp_path)


class Lines:
    """What a command prints, read by a thread, so that nobody waits for a line that does not come."""

    def __init__(self, stream: object) -> None:
        self._stream = stream
        self._text = ""
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:  # type: ignore[attr-defined]
            with self._news:
                self._text += line
                self._news.notify_all()

    def wait(self, text: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: text in self._text, 60), (text, self._text)


def test_the_log_of_the_last_attempt_is_printed(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"the first\n")
    place.attempts("n1").write("j1", 2, b"the second \xc3\xbc\n")
    with place.node("n1"):
        place.running(2, "n1")
        assert answer(place.cluster, "logs", "words") == "the second ü\n"
        assert answer(place.cluster, "logs", "words", "--attempt", "1") == "the first\n"
        assert "has had 2 attempts so far" in refusal(run(place.cluster, "logs", "words", "--attempt", "3"))


def test_only_the_last_lines_are_printed(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"".join(b"line %d\n" % number for number in range(1000)))
    with place.node("n1"):
        place.running(1, "n1")
        assert answer(place.cluster, "logs", "words", "--tail", "2") == "line 998\nline 999\n"


def test_a_large_log_is_printed_as_a_whole(place: Place) -> None:
    for number in (2, 1, None):
        place.attempts("n1").write(
            "j1", 1, b"".join(b"%d %d\n" % (number or 0, line) for line in range(200_000)), number=number
        )
    with place.node("n1"):
        place.running(1, "n1")
        printed = answer(place.cluster, "logs", "words").splitlines()
    assert printed == [f"{number} {line}" for number in (2, 1, 0) for line in range(200_000)]


def test_the_log_of_a_job_that_ended_is_found_where_it_ran(place: Place) -> None:
    place.attempts("n2").write("j1", 1, b"over\n")
    with place.node("n1"), place.node("n2"):
        place.running(1, "n2")
        place.ended(1, Phase.FAILED, "it failed")
        assert answer(place.cluster, "logs", "words") == "over\n"


def test_if_nobody_knows_where_it_ran_every_node_is_asked(place: Place) -> None:
    place.attempts("n2").write("j1", 1, b"found\n")
    with place.node("n1"), place.node("n2"):
        place.cluster.settle("j1", Phase.PENDING, "lost", attempt=5)
        assert answer(place.cluster, "logs", "words", "--attempt", "1") == "found\n"
        assert "no node that is there has" in refusal(run(place.cluster, "logs", "words", "--attempt", "2"))


def test_a_job_that_has_not_run_says_why(place: Place) -> None:
    place.cluster.settle("j1", Phase.PENDING, "waiting for room")
    assert "has not run yet: waiting for room" in refusal(run(place.cluster, "logs", "words"))


def test_a_node_that_is_away_is_named(place: Place) -> None:
    place.running(1, "n1")
    assert "node n1, which has" in refusal(run(place.cluster, "logs", "words"))
    place.cluster.node("n1", address="http://127.0.0.1:1")
    assert "does not answer" in refusal(run(place.cluster, "logs", "words"))


@pytest.mark.parametrize("address", ["", "http://", "ftp://x", "http://127.0.0.1:99999", "http://[", "127.0.0.1:80", "\x00"])
def test_a_node_with_an_odd_address_is_one_sentence(place: Place, address: str) -> None:
    place.running(1, "n1")
    place.cluster.node("n1", address=address)
    assert "does not answer" in refusal(run(place.cluster, "logs", "words"))


def test_a_wrong_secret_is_one_sentence(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"x")
    with place.node("n1"):
        place.running(1, "n1")
        place.cluster.put(place.cluster.paths.secret, b"another")
        assert "answers 401" in refusal(run(place.cluster, "logs", "words"))


def test_following_goes_from_attempt_to_attempt_and_ends_with_the_job(place: Place) -> None:
    one, two = place.attempts("n1"), place.attempts("n2")
    one.write("j1", 1, b"a1\n")
    with place.node("n1"), place.node("n2"), started(place.cluster, "logs", "-f", "words") as process:
        place.running(1, "n1")
        out, err = Lines(process.stdout), Lines(process.stderr)
        out.wait("a1\n")
        one.write("j1", 1, b"a2\n")
        out.wait("a2\n")
        one.write("j1", 1, b"a3\n")
        one.end("j1", 1)
        place.ended(1, Phase.BACKOFF, "the driver failed; again in 1 s")
        err.wait("BACKOFF: the driver failed")
        two.write("j1", 2, b"b1\n")
        place.running(2, "n2")
        err.wait("attempt 2 on n2")
        out.wait("a3\nb1\n")
        two.write("j1", 2, b"the end\n")
        place.ended(2, Phase.FINISHED, "it came to its end")
        assert process.wait(60) == 0
        out.wait("a1\na2\na3\nb1\nthe end\n")


def test_following_a_job_that_has_ended_prints_it_and_ends(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"over\n")
    with place.node("n1"):
        place.running(1, "n1")
        place.ended(1, Phase.FINISHED, "it came to its end")
        done = run(place.cluster, "logs", "-f", "words")
    assert (done.returncode, done.stdout) == (0, "over\n")


def test_following_a_job_that_ended_before_it_began_ends(place: Place) -> None:
    with place.node("n1"):
        place.cluster.settle("j1", Phase.CANCELLED, "a person cancelled it")
        done = run(place.cluster, "logs", "-f", "words")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("\n") == 1 and "CANCELLED" in done.stderr


def test_following_waits_for_the_first_attempt(place: Place) -> None:
    with place.node("n1"), started(place.cluster, "logs", "-f", "words") as process:
        told(process, "PENDING")
        place.attempts("n1").write("j1", 1, b"at last\n")
        place.running(1, "n1")
        Lines(process.stdout).wait("at last\n")


def test_following_survives_a_node_that_comes_back_with_another_address(place: Place) -> None:
    attempts = place.attempts("n1")
    attempts.write("j1", 1, b"before\n")
    with contextlib.ExitStack() as stack:
        with place.node("n1"):
            place.running(1, "n1")
            process = stack.enter_context(started(place.cluster, "logs", "-f", "words"))
            out, err = Lines(process.stdout), Lines(process.stderr)
            out.wait("before\n")
        err.wait("still following")
        attempts.write("j1", 1, b"meanwhile\n")
        with place.node("n1"):
            out.wait("before\nmeanwhile\n")


def test_following_goes_on_without_zookeeper(place: Place) -> None:
    attempts = place.attempts("n1")
    attempts.write("j1", 1, b"before\n")
    with Proxy(place.cluster.port) as proxy, place.node("n1"):
        place.running(1, "n1")
        through = LaidOut(proxy.port, place.cluster.root, place.cluster.storage)
        with started(through, "logs", "-f", "words") as process:
            out, err = Lines(process.stdout), Lines(process.stderr)
            out.wait("before\n")
            proxy.refusing = True
            proxy.cut()
            err.wait("still following")
            attempts.write("j1", 1, b"without\n")
            out.wait("without\n")
            proxy.refusing = False
            attempts.write("j1", 1, b"the end\n")
            place.ended(1, Phase.FINISHED, "it came to its end")
            assert process.wait(60) == 0
            out.wait("before\nwithout\nthe end\n")


def test_the_log_of_a_machine_that_is_lost_is_left_behind(place: Place) -> None:
    place.running(1, "gone")
    place.attempts("n2").write("j1", 2, b"elsewhere\n")
    with place.node("n2"), started(place.cluster, "logs", "-f", "words") as process:
        err = Lines(process.stderr)
        err.wait("node gone, which has what attempt 1 printed, is not there")
        place.running(2, "n2")
        err.wait("cannot be had")
        Lines(process.stdout).wait("elsewhere\n")


def test_an_interruption_ends_it_quietly(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"going\n")
    with place.node("n1"):
        place.running(1, "n1")
        with started(place.cluster, "logs", "-f", "words") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "going\n"
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.strip() == ""  # a line ends where ^C stands


def test_a_reader_that_goes_away_ends_it(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"x\n" * 3_000_000)
    with place.node("n1"):
        place.running(1, "n1")
        with started(place.cluster, "logs", "words") as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(60) == 1
            assert "Traceback" not in process.stderr.read()
