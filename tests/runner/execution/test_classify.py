"""Classification of a driver's end."""

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver_protocol.application_status import ApplicationStatus
from holdfast.driver_protocol.exit_record import parse_exit_record
from holdfast.model.job import Ending, Outcome
from holdfast.runner.execution.classify import REASON_MAX, classify_exit


def exit_status(code: int) -> int:
    return code << 8


def kill_status(number: int) -> int:
    return int(number)


def classify(
    status: int, record: Any = None, tail: str = "", *, stop_requested: bool = False, oom_kills: bool = False, master: str = ""
) -> tuple[Ending, str]:
    outcome = classify_exit(
        status=status,
        record=parse_exit_record(record),
        output_tail=tail,
        stop_requested=stop_requested,
        kernel_killed_for_memory=oom_kills,
        master=master,
    )
    assert outcome.reason and len(outcome.reason) <= REASON_MAX and "\n" not in outcome.reason
    return outcome.ending, outcome.reason


def failed_record(reason: str = "the script failed: ValueError: x (line 3 of a.py)", **more: Any) -> dict[str, Any]:
    return {"how": "failed", "reason": reason, "condition": "", "exception": "ValueError", "started": True, **more}


FINISHED = {"how": "finished", "reason": "the script ended"}
STOPPED = {"how": "stopped", "reason": "the job stopped at a batch boundary, as requested"}


def test_script_that_ends_normally_is_finished() -> None:
    assert classify(exit_status(0), FINISHED) == (Ending.FINISHED, "the script ended")
    assert classify(exit_status(0)) == (Ending.FINISHED, "the script ended")
    assert classify(exit_status(0), FINISHED, stop_requested=True)[0] is Ending.FINISHED, "it ended before it saw the request"


def test_stop_at_a_batch_boundary_is_stopped_with_or_without_a_request_of_the_runner() -> None:
    for requested in (True, False):
        assert classify(exit_status(0), STOPPED, stop_requested=requested) == (
            Ending.STOPPED,
            "the job stopped at a batch boundary, as requested",
        )
    later = {
        "how": "stopped",
        "reason": "the job stopped at a batch boundary, as requested; the script failed: RuntimeError: over",
    }
    assert classify(exit_status(1), later, stop_requested=True) == (Ending.STOPPED, later["reason"])
    assert classify(kill_status(signal.SIGKILL), STOPPED, stop_requested=True)[0] is Ending.STOPPED, (
        "killed after it wrote the record"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_driver_killed_after_a_stop_request_is_stopped_and_repeats_its_last_batch(number: int) -> None:
    ending, reason = classify(kill_status(number), stop_requested=True, oom_kills=True)
    assert ending is Ending.STOPPED
    assert "did not reach a batch boundary in time" in reason and "its last batch runs again" in reason


def test_end_after_a_stop_request_without_a_record_is_not_final() -> None:
    """A full disk prevents the record, and a stopped job must remain resumable."""
    assert classify(exit_status(0), None, stop_requested=True)[0] is Ending.STOPPED


def test_failure_has_the_reason_of_the_exit_record() -> None:
    assert classify(exit_status(1), failed_record()) == (Ending.FAILED, "the script failed: ValueError: x (line 3 of a.py)")
    assert (
        classify(exit_status(3), failed_record("the script ended with exit code 3", exception="SystemExit"))[0] is Ending.FAILED
    )
    assert classify(exit_status(0), failed_record())[0] is Ending.FAILED, "the record counts more than exit code 0"
    assert classify(kill_status(signal.SIGKILL), failed_record())[0] is Ending.FAILED, (
        "the process hung after the failure and was killed"
    )
    assert classify(exit_status(1), failed_record(), stop_requested=True)[0] is Ending.FAILED


def test_exit_code_of_the_script_comes_with_its_last_line() -> None:
    usage = "usage: a.py [-h] [--n N]\na.py: error: unrecognized arguments: --m 3\n"
    log_line = "26/11/15 10:00:00 INFO ShutdownHookManager: Shutdown hook called\n"
    record = failed_record("the script ended with exit code 2", exception="SystemExit")
    expected = "the script ended with exit code 2: a.py: error: unrecognized arguments: --m 3"
    assert classify(exit_status(2), record, usage) == (Ending.FAILED, expected)
    assert classify(exit_status(2), record, usage + log_line) == (Ending.FAILED, expected)
    assert classify(exit_status(2), record, log_line) == (Ending.FAILED, "the script ended with exit code 2")
    reported = failed_record("the script ended: no input", exception="SystemExit")
    assert classify(exit_status(1), reported, "no input\n") == (Ending.FAILED, "the script ended: no input")


def test_failure_without_a_record_quotes_the_last_exception_in_the_output() -> None:
    tail = "Traceback (most recent call last):\n  File ...\nmymodule.OddError: no such thing\n26/11/15 INFO bye\n"
    assert classify(exit_status(1), None, tail) == (
        Ending.FAILED,
        "the driver ended with exit code 1; last exception in its output: mymodule.OddError: no such thing",
    )
    assert classify(exit_status(7)) == (Ending.FAILED, "the driver ended with exit code 7")


def test_signal_is_named_in_the_reason() -> None:
    assert classify(kill_status(signal.SIGKILL)) == (Ending.KILLED, "the driver was killed by SIGKILL")
    assert classify(kill_status(70))[1] == "the driver was killed by signal 70"
    interrupted = failed_record("it was interrupted (line 3 of a.py)", exception="KeyboardInterrupt")
    assert classify(exit_status(130), interrupted) == (Ending.KILLED, "it was interrupted (line 3 of a.py) (SIGINT)")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP"])
def test_crash_is_a_failure_of_the_job(name: str) -> None:
    number = kill_status(signal.Signals[name])
    assert classify(number) == (Ending.FAILED, f"the driver crashed with {name}")
    assert classify(number | 0x80) == (Ending.FAILED, f"the driver crashed with {name}"), "with a core dump"
    assert classify(number, FINISHED)[0] is Ending.FAILED, "during its exit"
    assert classify(number, oom_kills=True)[0] is Ending.FAILED, "the kernel kills with SIGKILL"


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGXCPU", "SIGUSR1"])
def test_signal_from_outside_is_not_a_failure_of_the_script(name: str) -> None:
    assert classify(kill_status(signal.Signals[name])) == (Ending.KILLED, f"the driver was killed by {name}")


OOM_TAIL = "26/11/15 ERROR x\njava.lang.OutOfMemoryError: Java heap space\nTerminating due to java.lang.OutOfMemoryError\n"


@pytest.mark.parametrize(
    ("status", "record", "tail", "oom_kills", "expected"),
    [
        (
            exit_status(1),
            failed_record("the script failed: MemoryError (line 3 of a.py)", exception="MemoryError"),
            "",
            False,
            "Python ran out",
        ),
        (exit_status(1), failed_record("x", exception="java.lang.OutOfMemoryError"), "", False, "raise spark.driver.memory"),
        (
            exit_status(1),
            failed_record("the script failed: StreamingQueryException: Java heap space"),
            "",
            False,
            "raise spark.driver.memory",
        ),
        (
            exit_status(1),
            failed_record("its Java process ended with exit code 3", java_status=3),
            "",
            False,
            "raise spark.driver.memory",
        ),
        (exit_status(1), failed_record("its Java process ended", java_status=1), OOM_TAIL, False, "raise spark.driver.memory"),
        (exit_status(1), None, OOM_TAIL, False, "raise spark.driver.memory"),
        (exit_status(1), None, "Traceback\nMemoryError: \nMemoryError: no more\n", False, "Python ran out of memory"),
        (
            kill_status(signal.SIGKILL),
            None,
            "",
            True,
            "the kernel killed the driver because the machine ran out of memory",
        ),
        (
            exit_status(1),
            failed_record("its Java process was killed", java_status=-9),
            "",
            True,
            "the kernel killed the driver",
        ),
        (
            exit_status(1),
            failed_record("the script failed: Python worker exited unexpectedly (crashed)"),
            "",
            True,
            "the kernel killed the driver",
        ),
    ],
)
def test_exhausted_memory_is_recognised(status: int, record: Any, tail: str, oom_kills: bool, expected: str) -> None:
    ending, reason = classify(status, record, tail, oom_kills=oom_kills)
    assert ending is Ending.OUT_OF_MEMORY
    assert expected in reason


def test_memory_is_not_blamed_without_evidence_about_this_driver() -> None:
    """The kernel counts kills of the whole machine, and the log may show an executor that recovered."""
    assert classify(exit_status(1), failed_record(), oom_kills=True)[0] is Ending.FAILED
    assert classify(exit_status(1), failed_record(), OOM_TAIL)[0] is Ending.FAILED
    assert classify(kill_status(signal.SIGTERM), oom_kills=True)[0] is Ending.KILLED
    assert classify(exit_status(1), failed_record(java_status=-9))[0] is Ending.FAILED
    assert classify(exit_status(0), FINISHED, OOM_TAIL, oom_kills=True)[0] is Ending.FINISHED


def test_script_that_cannot_start_is_unstartable() -> None:
    syntax = failed_record(
        "the script failed: SyntaxError: invalid syntax (line 1 of a.py)", exception="SyntaxError", started=False
    )
    assert classify(exit_status(1), syntax) == (Ending.UNSTARTABLE, syntax["reason"])
    gone = failed_record("the script failed: FileNotFoundError: No such file or directory: a.py", started=False)
    assert classify(exit_status(1), gone)[0] is Ending.UNSTARTABLE
    parsed = failed_record("the script failed: SyntaxError: bad data", exception="SyntaxError", started=True)
    assert classify(exit_status(1), parsed)[0] is Ending.FAILED, "a syntax error in data may not occur again"
    assert classify(exit_status(1), {"how": "failed", "reason": "x", "exception": "SyntaxError"})[0] is Ending.UNSTARTABLE


def test_checkpoint_conflict_and_data_loss_are_recognised() -> None:
    raced = failed_record("the script failed: Concurrent update to the log.", condition="CONCURRENT_STREAM_LOG_UPDATE")
    assert classify(exit_status(1), raced)[0] is Ending.CHECKPOINT_CONFLICT
    for condition in ("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", "KAFKA_DATA_LOSS", "KINESIS_DATA_LOSS.X"):
        assert classify(exit_status(1), failed_record("Some offsets are gone.", condition=condition)) == (
            Ending.DATA_LOSS,
            "Some offsets are gone.",
        )
    assert classify(exit_status(1), failed_record("Some data may have been lost because …"))[0] is Ending.DATA_LOSS


@pytest.mark.parametrize("kind", ["OutputRefused", "Superseded"])
def test_refusal_by_a_sink_requires_an_operator(kind: str) -> None:
    """A retry would fail in the same way for ever."""
    reason = "/data/out belongs to the query q1 of the job j1"
    ending, shown = classify(
        exit_status(1), failed_record(reason, exception=kind, condition="FOREACH_BATCH_USER_FUNCTION_ERROR")
    )
    assert (ending, shown) == (Ending.OUTPUT_CONFLICT, reason)
    assert ending.requires_operator and not ending.is_job_failure


def test_missing_java_or_holdfast_on_the_node_is_not_a_job_failure() -> None:
    gateway = failed_record("the script failed: Java gateway process exited", condition="JAVA_GATEWAY_EXITED")
    assert classify(exit_status(1), gateway, "JAVA_HOME is not set\n") == (
        Ending.LOST,
        "the node has no Java: install Java 17 or later there",
    )
    tail = "x\nException in thread \"main\" org.apache.spark.SparkException: Could not parse Master URL: 'lokal'\n\tat y\n"
    assert classify(exit_status(1), gateway, tail) == (
        Ending.FAILED,
        "Java did not start: org.apache.spark.SparkException: Could not parse Master URL: 'lokal'",
    )
    assert classify(exit_status(1), gateway)[0] is Ending.FAILED
    missing = "/usr/bin/python3: Error while finding module specification (ModuleNotFoundError: No module named 'holdfast')"
    assert classify(exit_status(1), None, missing)[0] is Ending.LOST


NO_MASTER_ANSWERED = """02:00:00 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 10.0.0.1:7077
02:01:00 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive! Giving up.
02:01:00 ERROR SparkContext: Error initializing SparkContext.
"""


@pytest.mark.parametrize("record", [failed_record("the script failed: NullPointerException"), None, FINISHED])
def test_unreachable_master_is_not_a_job_failure(record: Any) -> None:
    """The exit record does not matter: a script that lost its SparkContext may even end normally."""
    status = exit_status(0) if record is FINISHED else exit_status(1)
    assert classify(status, record, NO_MASTER_ANSWERED) == (
        Ending.LOST,
        "the Spark Master is unreachable: none answered, and Spark gave up",
    )
    named = classify(status, record, NO_MASTER_ANSWERED, master="spark://10.0.0.1:7077")
    assert named == (Ending.LOST, "the Spark Master is unreachable: none answered at spark://10.0.0.1:7077, and Spark gave up")


def test_reason_of_the_spark_cluster_is_quoted() -> None:
    tail = "ERROR StandaloneSchedulerBackend: Application has been killed. Reason: Master removed our application: FAILED\n"
    assert classify(exit_status(1), failed_record(), tail) == (
        Ending.FAILED,
        "the Spark cluster ended the application: Master removed our application: FAILED",
    )
    assert classify(kill_status(signal.SIGKILL), None, tail, stop_requested=True)[0] is Ending.STOPPED


NOTE = "YARN ended application_1_2: it is {} ({})"
AM_LOST = "Application application_1_2 failed 2 times due to AM Container for appattempt_1_2_000002 exited with exitCode: 137"


@pytest.mark.parametrize("record", [failed_record("the script failed: Py4JJavaError"), None, FINISHED])
@pytest.mark.parametrize(
    ("state", "because", "ending"),
    [
        ("FAILED", AM_LOST, Ending.LOST),
        ("FAILED", "Max number of executor failures (3) reached", Ending.FAILED),
        ("KILLED", "Application application_1_2 was killed by user admin", Ending.FAILED),
        ("FORGOTTEN", "", Ending.LOST),
    ],
)
def test_application_that_yarn_ended_is_never_finished(record: Any, state: str, because: str, ending: Ending) -> None:
    """Spark stops its context then, and a script may end normally with it."""
    application = ApplicationStatus("application_1_2", state, note=NOTE.format(state, because))
    status = exit_status(0) if record is FINISHED else exit_status(1)
    outcome = classify_exit(
        status=status,
        record=parse_exit_record(record),
        output_tail="",
        stop_requested=False,
        kernel_killed_for_memory=False,
        application=application,
    )
    assert outcome == Outcome(ending, application.note)


def test_end_of_an_application_in_yarn_does_not_hide_a_stop_or_a_failure_of_the_script() -> None:
    for state, record, ending in (("KILLED", STOPPED, Ending.STOPPED), ("RUNNING", failed_record(), Ending.FAILED)):
        outcome = classify_exit(
            status=exit_status(1),
            record=parse_exit_record(record),
            output_tail="",
            stop_requested=False,
            kernel_killed_for_memory=False,
            application=ApplicationStatus("application_1_2", state, note="x"),
        )
        assert outcome == Outcome(ending, record["reason"])


def test_driver_without_executors_is_lost() -> None:
    abandoned = failed_record("its Spark Master went away while it ran", condition="HOLDFAST_FORSAKEN")
    assert classify(exit_status(1), abandoned) == (Ending.LOST, "its Spark Master went away while it ran")


def test_reason_is_one_short_printable_line() -> None:
    _, reason = classify(exit_status(1), failed_record("line one\nline two\t\x1b[31mred\x00" + "x" * 5000))
    assert reason.startswith("line one line two [31mred x") and reason.endswith("…")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
keys = st.sampled_from(["how", "reason", "condition", "exception", "started", "java_status", "x"])
hows = st.sampled_from(["finished", "stopped", "failed", "FAILED", ""])


@pytest.mark.slow
@given(
    status=st.integers(0, 0xFFFF),
    record=st.none() | st.dictionaries(keys, anything) | st.dictionaries(keys, anything | hows) | anything,
    tail=st.text(),
    stop_requested=st.booleans(),
    oom_kills=st.booleans(),
)
def test_malformed_input_never_raises(status: int, record: Any, tail: str, stop_requested: bool, oom_kills: bool) -> None:
    outcome = classify_exit(
        status=status,
        record=parse_exit_record(record),
        output_tail=tail,
        stop_requested=stop_requested,
        kernel_killed_for_memory=oom_kills,
    )
    assert isinstance(outcome, Outcome)
    assert 0 < len(outcome.reason) <= REASON_MAX
    outcome.reason.encode()


@pytest.mark.slow
@given(record=st.dictionaries(keys, anything | hows), code=st.integers(1, 255), tail=st.text(), stop_requested=st.booleans())
def test_driver_with_a_nonzero_exit_code_is_never_finished(record: Any, code: int, tail: str, stop_requested: bool) -> None:
    outcome = classify_exit(
        status=exit_status(code),
        record=parse_exit_record(record),
        output_tail=tail,
        stop_requested=stop_requested,
        kernel_killed_for_memory=False,
    )
    assert outcome.ending is not Ending.FINISHED


def test_location_of_another_job_is_a_checkpoint_conflict_with_the_runners_own_sentence() -> None:
    sentence = "the checkpoint /x belongs to the job j1, which is RUNNING: run 'holdfast cancel j1'"
    record = failed_record(sentence, condition="HOLDFAST_CHECKPOINT_CLAIMED", exception="")
    assert classify(exit_status(1), record) == (Ending.CHECKPOINT_CONFLICT, sentence)
