"""How an attempt ended, from what is left of it."""

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.job import Ending, Outcome
from holdfast.runner.classify import REASON_MAX, classify


def exited(code: int) -> int:
    return code << 8


def killed(number: int) -> int:
    return int(number)


def judged(
    status: int, end: Any = None, tail: str = "", *, stop_asked: bool = False, oom_kills: bool = False, master: str = ""
) -> tuple[Ending, str]:
    outcome = classify(status=status, end=end, tail=tail, stop_asked=stop_asked, oom_kills=oom_kills, master=master)
    assert outcome.reason and len(outcome.reason) <= REASON_MAX and "\n" not in outcome.reason
    return outcome.ending, outcome.reason


def failed(reason: str = "its script failed: ValueError: x (line 3 of a.py)", **more: Any) -> dict[str, Any]:
    return {"how": "failed", "reason": reason, "condition": "", "exception": "ValueError", "started": True, **more}


FINISHED = {"how": "finished", "reason": "its script ended"}
STOPPED = {"how": "stopped", "reason": "it stopped at a batch boundary, as asked"}


def test_a_script_that_ends_has_finished() -> None:
    assert judged(exited(0), FINISHED) == (Ending.FINISHED, "its script ended")
    assert judged(exited(0)) == (Ending.FINISHED, "its script ended")
    assert judged(exited(0), FINISHED, stop_asked=True)[0] is Ending.FINISHED, "it was done before it heard of the stop"


def test_a_stop_at_a_batch_boundary_is_one_whoever_asked_for_it() -> None:
    for asked in (True, False):
        assert judged(exited(0), STOPPED, stop_asked=asked) == (Ending.STOPPED, "it stopped at a batch boundary, as asked")
    later = {"how": "stopped", "reason": "it stopped at a batch boundary, as asked; its script failed: RuntimeError: over"}
    assert judged(exited(1), later, stop_asked=True) == (Ending.STOPPED, later["reason"])
    assert judged(killed(signal.SIGKILL), STOPPED, stop_asked=True)[0] is Ending.STOPPED, "killed after it had said so"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stop_that_took_too_long_is_still_one_and_says_what_that_costs(number: int) -> None:
    ending, reason = judged(killed(number), stop_asked=True, oom_kills=True)
    assert ending is Ending.STOPPED
    assert "did not reach a batch boundary in time" in reason and "its last batch runs again" in reason


def test_an_end_without_a_word_when_it_was_to_stop_is_not_final() -> None:
    """A full disk leaves no words. Whoever stops a job wants to resume it."""
    assert judged(exited(0), None, stop_asked=True)[0] is Ending.STOPPED


def test_a_failure_is_told_in_its_own_words() -> None:
    assert judged(exited(1), failed()) == (Ending.FAILED, "its script failed: ValueError: x (line 3 of a.py)")
    assert judged(exited(3), failed("its script ended with exit code 3", exception="SystemExit"))[0] is Ending.FAILED
    assert judged(exited(0), failed())[0] is Ending.FAILED, "what said that it failed has not finished"
    assert judged(killed(signal.SIGKILL), failed())[0] is Ending.FAILED, "its end hung, and it was killed"
    assert judged(exited(1), failed(), stop_asked=True)[0] is Ending.FAILED


def test_a_failure_without_words_is_told_by_its_output() -> None:
    tail = "Traceback (most recent call last):\n  File ...\nmymodule.OddError: no such thing\n26/11/15 INFO bye\n"
    assert judged(exited(1), None, tail) == (
        Ending.FAILED,
        "it ended with exit code 1; the last that it said of a failure: mymodule.OddError: no such thing",
    )
    assert judged(exited(7)) == (Ending.FAILED, "it ended with exit code 7")


def test_a_signal_is_named() -> None:
    assert judged(killed(signal.SIGSEGV)) == (Ending.KILLED, "it was killed by SIGSEGV")
    assert judged(killed(signal.SIGKILL)) == (Ending.KILLED, "it was killed by SIGKILL")
    assert judged(killed(signal.SIGABRT) | 0x80)[1] == "it was killed by SIGABRT", "with a core dump"
    assert judged(killed(70))[1] == "it was killed by signal 70"
    interrupted = failed("it was interrupted (line 3 of a.py)", exception="KeyboardInterrupt")
    assert judged(exited(130), interrupted) == (Ending.KILLED, "it was interrupted (line 3 of a.py) (SIGINT)")


OOM_TAIL = "26/11/15 ERROR x\njava.lang.OutOfMemoryError: Java heap space\nTerminating due to java.lang.OutOfMemoryError\n"


@pytest.mark.parametrize(
    ("status", "end", "tail", "oom_kills", "says"),
    [
        (
            exited(1),
            failed("its script failed: MemoryError (line 3 of a.py)", exception="MemoryError"),
            "",
            False,
            "Python ran out",
        ),
        (exited(1), failed("x", exception="java.lang.OutOfMemoryError"), "", False, "raise spark.driver.memory"),
        (
            exited(1),
            failed("its script failed: StreamingQueryException: Java heap space"),
            "",
            False,
            "raise spark.driver.memory",
        ),
        (exited(1), failed("its Java process ended with exit code 3", java_status=3), "", False, "raise spark.driver.memory"),
        (exited(1), failed("its Java process ended", java_status=1), OOM_TAIL, False, "raise spark.driver.memory"),
        (exited(1), None, OOM_TAIL, False, "raise spark.driver.memory"),
        (exited(1), None, "Traceback\nMemoryError: \nMemoryError: no more\n", False, "Python ran out of memory"),
        (killed(signal.SIGKILL), None, "", True, "the kernel killed it because the machine ran out of memory"),
        (exited(1), failed("its Java process was killed", java_status=-9), "", True, "the kernel killed it"),
        (exited(1), failed("its script failed: Python worker exited unexpectedly (crashed)"), "", True, "the kernel killed it"),
    ],
)
def test_memory_is_told_from_other_failures(status: int, end: Any, tail: str, oom_kills: bool, says: str) -> None:
    ending, reason = judged(status, end, tail, oom_kills=oom_kills)
    assert ending is Ending.OUT_OF_MEMORY
    assert says in reason


def test_memory_is_not_blamed_without_evidence() -> None:
    """The kernel's count is the machine's, and a log may tell of an executor that came back."""
    assert judged(exited(1), failed(), oom_kills=True)[0] is Ending.FAILED
    assert judged(exited(1), failed(), OOM_TAIL)[0] is Ending.FAILED
    assert judged(killed(signal.SIGSEGV), oom_kills=True)[0] is Ending.KILLED
    assert judged(exited(1), failed(java_status=-9))[0] is Ending.FAILED
    assert judged(exited(0), FINISHED, OOM_TAIL, oom_kills=True)[0] is Ending.FINISHED


def test_what_never_started_never_will() -> None:
    syntax = failed("its script failed: SyntaxError: invalid syntax (line 1 of a.py)", exception="SyntaxError", started=False)
    assert judged(exited(1), syntax) == (Ending.UNSTARTABLE, syntax["reason"])
    gone = failed("its script failed: FileNotFoundError: No such file or directory: a.py", started=False)
    assert judged(exited(1), gone)[0] is Ending.UNSTARTABLE
    parsed = failed("its script failed: SyntaxError: bad data", exception="SyntaxError", started=True)
    assert judged(exited(1), parsed)[0] is Ending.FAILED, "data that cannot be parsed may be better next time"
    assert judged(exited(1), {"how": "failed", "reason": "x", "exception": "SyntaxError"})[0] is Ending.UNSTARTABLE


def test_a_second_driver_on_the_checkpoint_and_lost_data_need_a_person() -> None:
    raced = failed("its script failed: Concurrent update to the log.", condition="CONCURRENT_STREAM_LOG_UPDATE")
    assert judged(exited(1), raced)[0] is Ending.CHECKPOINT_CONFLICT
    for condition in ("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", "KAFKA_DATA_LOSS", "KINESIS_DATA_LOSS.X"):
        assert judged(exited(1), failed("Some offsets are gone.", condition=condition)) == (
            Ending.DATA_LOSS,
            "Some offsets are gone.",
        )
    assert judged(exited(1), failed("Some data may have been lost because …"))[0] is Ending.DATA_LOSS


@pytest.mark.parametrize("kind", ["OutputRefused", "Superseded"])
def test_what_a_sink_refuses_waits_for_a_person(kind: str) -> None:
    """To run again into the same output would be a crash loop."""
    reason = "/data/out belongs to the query q1 of the job j1"
    ending, told = judged(exited(1), failed(reason, exception=kind, condition="FOREACH_BATCH_USER_FUNCTION_ERROR"))
    assert (ending, told) == (Ending.OUTPUT_CONFLICT, reason)
    assert ending.needs_a_person and not ending.blames_the_job


def test_a_node_that_cannot_run_anything_is_not_the_jobs_fault() -> None:
    gateway = failed("its script failed: Java gateway process exited", condition="JAVA_GATEWAY_EXITED")
    assert judged(exited(1), gateway, "JAVA_HOME is not set\n") == (
        Ending.LOST,
        "there is no Java on its node: install Java 17 or later there",
    )
    tail = "x\nException in thread \"main\" org.apache.spark.SparkException: Could not parse Master URL: 'lokal'\n\tat y\n"
    assert judged(exited(1), gateway, tail) == (
        Ending.FAILED,
        "Java did not start: org.apache.spark.SparkException: Could not parse Master URL: 'lokal'",
    )
    assert judged(exited(1), gateway)[0] is Ending.FAILED
    missing = "/usr/bin/python3: Error while finding module specification (ModuleNotFoundError: No module named 'holdfast')"
    assert judged(exited(1), None, missing)[0] is Ending.LOST


MASTER_AWAY = """02:00:00 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 10.0.0.1:7077
02:01:00 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive! Giving up.
02:01:00 ERROR SparkContext: Error initializing SparkContext.
"""


@pytest.mark.parametrize("end", [failed("its script failed: NullPointerException"), None, FINISHED])
def test_a_master_that_is_away_is_not_the_jobs_fault(end: Any) -> None:
    """Whatever the script made of it: a job whose context was taken from it may even seem to have finished."""
    status = exited(0) if end is FINISHED else exited(1)
    assert judged(status, end, MASTER_AWAY) == (Ending.LOST, "the Spark Master is away: none answered, and Spark gave up")
    named = judged(status, end, MASTER_AWAY, master="spark://10.0.0.1:7077")
    assert named == (Ending.LOST, "the Spark Master is away: none answered at spark://10.0.0.1:7077, and Spark gave up")


def test_a_cluster_that_ends_a_job_is_quoted() -> None:
    tail = "ERROR StandaloneSchedulerBackend: Application has been killed. Reason: Master removed our application: FAILED\n"
    assert judged(exited(1), failed(), tail) == (
        Ending.FAILED,
        "its Spark cluster ended it: Master removed our application: FAILED",
    )
    assert judged(killed(signal.SIGKILL), None, tail, stop_asked=True)[0] is Ending.STOPPED


def test_a_driver_that_was_forsaken_by_its_cluster_is_lost() -> None:
    forsaken = failed("its Spark Master went away while it ran", condition="HOLDFAST_FORSAKEN")
    assert judged(exited(1), forsaken) == (Ending.LOST, "its Spark Master went away while it ran")


def test_a_reason_is_one_short_line_of_what_can_be_shown() -> None:
    _, reason = judged(exited(1), failed("line one\nline two\t\x1b[31mred\x00" + "x" * 5000))
    assert reason.startswith("line one line two [31mred x") and reason.endswith("…")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
keys = st.sampled_from(["how", "reason", "condition", "exception", "started", "java_status", "x"])
hows = st.sampled_from(["finished", "stopped", "failed", "FAILED", ""])


@given(
    status=st.integers(0, 0xFFFF),
    end=st.none() | st.dictionaries(keys, anything) | st.dictionaries(keys, anything | hows) | anything,
    tail=st.text(),
    stop_asked=st.booleans(),
    oom_kills=st.booleans(),
)
def test_garbage_never_raises(status: int, end: Any, tail: str, stop_asked: bool, oom_kills: bool) -> None:
    outcome = classify(status=status, end=end, tail=tail, stop_asked=stop_asked, oom_kills=oom_kills)
    assert isinstance(outcome, Outcome)
    assert 0 < len(outcome.reason) <= REASON_MAX
    outcome.reason.encode()


@given(end=st.dictionaries(keys, anything | hows), code=st.integers(1, 255), tail=st.text(), stop_asked=st.booleans())
def test_nothing_with_an_exit_code_has_finished(end: Any, code: int, tail: str, stop_asked: bool) -> None:
    outcome = classify(status=exited(code), end=end, tail=tail, stop_asked=stop_asked, oom_kills=False)
    assert outcome.ending is not Ending.FINISHED
