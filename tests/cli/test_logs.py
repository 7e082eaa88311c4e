"""`holdfast logs`: output from the right node, through restarts of jobs and nodes."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.phase import Phase
from tests.harness.command_line import error_message, run_command, run_ok, start_command, wait_for_stderr
from tests.harness.node_stub import AttemptFiles, serve_logs
from tests.harness.prepared_cluster import SECRET, PreparedCluster
from tests.harness.tcp_proxy import TcpProxy

pytestmark = pytest.mark.real


class Place:
    """Cluster with one job, whose logs are on one or more nodes."""

    def __init__(self, cluster: PreparedCluster, directory: Path) -> None:
        self.cluster = cluster
        self._directory = directory

    def attempts(self, node: str) -> AttemptFiles:
        return AttemptFiles(self._directory / node)

    @contextlib.contextmanager
    def node(self, node: str) -> Iterator[None]:
        with serve_logs(self.attempts(node), SECRET) as address:
            self.cluster.add_node(node, address=address)
            yield
            self.cluster.remove(self.cluster.paths.node(NodeId(node)))

    def running(self, attempt: int, node: str) -> None:
        self.cluster.write_state("j1", Phase.RUNNING, f"attempt {attempt} runs on {node}", attempt=attempt, node=node)
        self.cluster.write_lease("j1", attempt=attempt, node=node)
        self.cluster.write_report("j1", attempt=attempt, node=node)

    def ended(self, attempt: int, phase: Phase, reason: str) -> None:
        self.cluster.remove(self.cluster.paths.job(JobId("j1"), "lease"))
        self.cluster.write_state("j1", phase, reason, attempt=attempt)


@pytest.fixture
def place(cluster: PreparedCluster, tmp_path: Path) -> Place:
    cluster.submit("j1", name="words")
    return Place(cluster, tmp_path)


class Lines:
    """Output of a command, read by a thread, so that a missing line cannot block the test."""

    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        self._stream = stream
        self._text = ""
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            with self._news:
                self._text += line
                self._news.notify_all()

    def wait(self, text: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: text in self._text, 60), (text, self._text)


def test_log_of_last_attempt_is_printed(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"the first\n")
    place.attempts("n1").write("j1", 2, b"the second \xc3\xbc\n")
    with place.node("n1"):
        place.running(2, "n1")
        assert run_ok(place.cluster, "logs", "words") == "the second ü\n"
        assert run_ok(place.cluster, "logs", "words", "--attempt", "1") == "the first\n"
        assert "it has had 2 attempts so far" in error_message(run_command(place.cluster, "logs", "words", "--attempt", "3"))


def test_tail_prints_the_last_lines(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"".join(b"line %d\n" % number for number in range(1000)))
    with place.node("n1"):
        place.running(1, "n1")
        assert run_ok(place.cluster, "logs", "words", "--tail", "2") == "line 998\nline 999\n"


def test_large_log_is_printed_completely(place: Place) -> None:
    for number in (2, 1, None):
        place.attempts("n1").write(
            "j1", 1, b"".join(b"%d %d\n" % (number or 0, line) for line in range(200_000)), number=number
        )
    with place.node("n1"):
        place.running(1, "n1")
        printed = run_ok(place.cluster, "logs", "words").splitlines()
    assert printed == [f"{number} {line}" for number in (2, 1, 0) for line in range(200_000)]


def test_log_of_ended_job_is_read_from_the_node_that_ran_it(place: Place) -> None:
    place.attempts("n2").write("j1", 1, b"over\n")
    with place.node("n1"), place.node("n2"):
        place.running(1, "n2")
        place.ended(1, Phase.FAILED, "it failed")
        assert run_ok(place.cluster, "logs", "words") == "over\n"


def test_every_node_is_asked_if_the_node_is_unknown(place: Place) -> None:
    place.attempts("n2").write("j1", 1, b"found\n")
    with place.node("n1"), place.node("n2"):
        place.cluster.write_state("j1", Phase.PENDING, "lost", attempt=5)
        assert run_ok(place.cluster, "logs", "words", "--attempt", "1") == "found\n"
        assert "no live node has the output of attempt 2" in error_message(
            run_command(place.cluster, "logs", "words", "--attempt", "2")
        )


def test_job_that_has_not_run_prints_its_reason(place: Place) -> None:
    place.cluster.write_state("j1", Phase.PENDING, "waiting for free slots")
    assert "has not run yet: waiting for free slots" in error_message(run_command(place.cluster, "logs", "words"))


def test_missing_node_is_named(place: Place) -> None:
    place.running(1, "n1")
    assert "node n1, which has" in error_message(run_command(place.cluster, "logs", "words"))
    place.cluster.add_node("n1", address="http://127.0.0.1:1")
    assert "does not answer" in error_message(run_command(place.cluster, "logs", "words"))


@pytest.mark.parametrize("address", ["", "http://", "ftp://x", "http://127.0.0.1:99999", "http://[", "127.0.0.1:80", "\x00"])
def test_invalid_node_address_is_one_sentence(place: Place, address: str) -> None:
    place.running(1, "n1")
    place.cluster.add_node("n1", address=address)
    assert "does not answer" in error_message(run_command(place.cluster, "logs", "words"))


def test_wrong_secret_is_one_sentence(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"x")
    with place.node("n1"):
        place.running(1, "n1")
        place.cluster.put(place.cluster.paths.secret, b"another")
        assert "answers 401" in error_message(run_command(place.cluster, "logs", "words"))


def test_follow_continues_through_attempts_until_the_job_ends(place: Place) -> None:
    one, two = place.attempts("n1"), place.attempts("n2")
    one.write("j1", 1, b"a1\n")
    with place.node("n1"), place.node("n2"), start_command(place.cluster, "logs", "-f", "words") as process:
        place.running(1, "n1")
        out, err = Lines(process.stdout), Lines(process.stderr)
        out.wait("a1\n")
        one.write("j1", 1, b"a2\n")
        out.wait("a2\n")
        one.write("j1", 1, b"a3\n")
        one.end("j1", 1)
        place.ended(1, Phase.BACKOFF, "the driver failed; next attempt in 1 s")
        err.wait("BACKOFF: the driver failed")
        two.write("j1", 2, b"b1\n")
        place.running(2, "n2")
        err.wait("attempt 2 on n2")
        out.wait("a3\nb1\n")
        two.write("j1", 2, b"the end\n")
        place.ended(2, Phase.FINISHED, "it came to its end")
        assert process.wait(60) == 0
        out.wait("a1\na2\na3\nb1\nthe end\n")


def test_follow_of_ended_job_prints_its_log_and_ends(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"over\n")
    with place.node("n1"):
        place.running(1, "n1")
        place.ended(1, Phase.FINISHED, "it came to its end")
        done = run_command(place.cluster, "logs", "-f", "words")
    assert (done.returncode, done.stdout) == (0, "over\n")


def test_follow_of_job_that_never_ran_ends(place: Place) -> None:
    with place.node("n1"):
        place.cluster.write_state("j1", Phase.CANCELLED, "a user cancelled the job")
        done = run_command(place.cluster, "logs", "-f", "words")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("\n") == 1 and "CANCELLED" in done.stderr


def test_follow_waits_for_the_first_attempt(place: Place) -> None:
    with place.node("n1"), start_command(place.cluster, "logs", "-f", "words") as process:
        wait_for_stderr(process, "PENDING")
        place.attempts("n1").write("j1", 1, b"at last\n")
        place.running(1, "n1")
        Lines(process.stdout).wait("at last\n")


def test_follow_survives_a_node_restart_with_another_address(place: Place) -> None:
    attempts = place.attempts("n1")
    attempts.write("j1", 1, b"before\n")
    with contextlib.ExitStack() as stack:
        with place.node("n1"):
            place.running(1, "n1")
            process = stack.enter_context(start_command(place.cluster, "logs", "-f", "words"))
            out, err = Lines(process.stdout), Lines(process.stderr)
            out.wait("before\n")
        err.wait("still following")
        attempts.write("j1", 1, b"meanwhile\n")
        with place.node("n1"):
            out.wait("before\nmeanwhile\n")


def test_follow_continues_without_zookeeper(place: Place) -> None:
    attempts = place.attempts("n1")
    attempts.write("j1", 1, b"before\n")
    with TcpProxy(place.cluster.port) as proxy, place.node("n1"):
        place.running(1, "n1")
        through = PreparedCluster(proxy.port, place.cluster.root, place.cluster.storage)
        with start_command(through, "logs", "-f", "words") as process:
            out, err = Lines(process.stdout), Lines(process.stderr)
            out.wait("before\n")
            proxy.refuses_connections = True
            proxy.drop_connections()
            err.wait("still following")
            attempts.write("j1", 1, b"without\n")
            out.wait("without\n")
            proxy.refuses_connections = False
            attempts.write("j1", 1, b"the end\n")
            place.ended(1, Phase.FINISHED, "it came to its end")
            assert process.wait(60) == 0
            out.wait("before\nwithout\nthe end\n")


def test_follow_skips_the_log_of_a_lost_machine(place: Place) -> None:
    place.running(1, "gone")
    place.attempts("n2").write("j1", 2, b"elsewhere\n")
    with place.node("n2"), start_command(place.cluster, "logs", "-f", "words") as process:
        err = Lines(process.stderr)
        err.wait("node gone, which has the output of attempt 1, is not reachable")
        place.running(2, "n2")
        err.wait("cannot be read")
        Lines(process.stdout).wait("elsewhere\n")


def test_interrupt_ends_follow_silently(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"going\n")
    with place.node("n1"):
        place.running(1, "n1")
        with start_command(place.cluster, "logs", "-f", "words") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "going\n"
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.strip() == ""  # a line ends where ^C stands


def test_closed_pipe_ends_follow(place: Place) -> None:
    place.attempts("n1").write("j1", 1, b"x\n" * 3_000_000)
    with place.node("n1"):
        place.running(1, "n1")
        with start_command(place.cluster, "logs", "words") as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(60) == 1
            assert "Traceback" not in process.stderr.read()
