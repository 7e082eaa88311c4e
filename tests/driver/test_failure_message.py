"""Failure messages for real Spark exceptions: cause, error condition and line. One driver raises them all."""

import json
import os
import signal

import pytest

from tests.harness.drivers import DriverProcess

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

FAILS = """
import json, os, time
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from holdfast.driver.failure_message import describe_failure

spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
out = os.environ["HOME"] + "/out"

@udf("int")
def divide(value):
    return 1 // 0

def report(what, action):
    try:
        action()
    except Exception as error:
        failure = describe_failure(error, __file__)
        print("FAILURE", json.dumps([what, failure.reason, failure.condition, failure.exception]))

def run(writer):
    writer.start().awaitTermination()

def boom(batch, batch_id):
    raise ValueError("boom\\non purpose")

def last(batch, batch_id):
    time.sleep(1)
    raise KeyError("last")

def exists(batch, batch_id):
    spark.range(2).write.json(out)

def race(batch, batch_id):
    # Commit the batch as a second driver on the same checkpoint would.
    with open(os.path.join(os.environ["HOLDFAST_CHECKPOINT"], "raced", "commits", str(batch_id)), "w") as file:
        file.write("v1\\n{}")

def nothing(batch, batch_id):
    "Ignore the rows."

spark.range(1).write.json(out)
report("path", lambda: spark.range(1).write.json(out))
report("no path", lambda: spark.read.json("/nowhere"))
report("java", lambda: spark._jvm.java.util.ArrayList(2147483647))
report("batch", lambda: run(rate.writeStream.foreachBatch(boom)))
report("batch path", lambda: run(rate.writeStream.foreachBatch(exists)))
report("udf", lambda: run(rate.select(divide("value")).writeStream.format("noop")))
report("race", lambda: run(rate.writeStream.queryName("raced").foreachBatch(race)))
report("state", lambda: run(rate.groupBy("value").count().writeStream.outputMode("update").foreachBatch(nothing)))
report("bad query", lambda: rate.writeStream.format("nonsense").start())
print("UNNAMED", sorted(name for name in os.listdir(os.environ["HOLDFAST_CHECKPOINT"]) if name.startswith("query-")))
rate.writeStream.queryName("last").foreachBatch(last).start()
"""


def line_label(text: str) -> str:
    (line,) = [number for number, line in enumerate(FAILS.splitlines(), 1) if text in line]
    return f"(line {line} of script.py)"


def test_spark_errors_are_described_with_cause_and_line(driver: DriverProcess) -> None:
    assert driver.run(FAILS) == 1
    lines = driver.output().splitlines()
    described = {what: rest for what, *rest in (json.loads(line[8:]) for line in lines if line.startswith("FAILURE "))}
    out = f"the output path file:{driver.work}/out already exists (PATH_ALREADY_EXISTS)"
    advice = ": choose another output path"
    assert described["path"] == [
        f"{out} {line_label('range(1).write.json(out))')}{advice}",
        "PATH_ALREADY_EXISTS",
        "AnalysisException",
    ]
    assert described["batch path"] == [f"{out} {line_label('range(2)')}{advice}", "PATH_ALREADY_EXISTS", "AnalysisException"]
    assert described["no path"][1] == "PATH_NOT_FOUND" and "Path does not exist: file:/nowhere" in described["no path"][0]
    assert described["java"][2] == "java.lang.OutOfMemoryError"
    boom = "the script failed: ValueError: boom (FOREACH_BATCH_USER_FUNCTION_ERROR)"
    assert described["batch"][0] == f"{boom} {line_label('raise ValueError')}"
    divided = "the script failed: ZeroDivisionError: integer division or modulo by zero (PYTHON_EXCEPTION)"
    assert described["udf"][0] == f"{divided} {line_label('1 // 0')}"
    assert described["race"][1] == "CONCURRENT_STREAM_LOG_UPDATE"
    assert described["state"][1] == "STATE_STORE_COMMIT_VALIDATION_FAILED" and "awaitResult" not in described["state"][0]
    assert "nonsense" in described["bad query"][0]
    assert "UNNAMED ['query-1', 'query-2', 'query-3', 'query-4']" in lines, "a query that did not start used up no number"

    # The last query fails after the last line of the script. Without Holdfast the process would exit with 0 before that.
    reason = f"the script failed: KeyError: 'last' (FOREACH_BATCH_USER_FUNCTION_ERROR) {line_label('raise KeyError')}"
    assert driver.exit_record()["reason"] == reason
    assert "holdfast/job" not in driver.output()


JVM_DIES = """
from holdfast.job import context

ctx = context()
query = ctx.spark.readStream.format("rate").load().writeStream.format("noop").start()
print("JVM pid", ctx.spark._jvm.java.lang.ProcessHandle.current().pid())
ctx.run(query)
"""


def test_killed_jvm_is_named_as_the_cause(driver: DriverProcess) -> None:
    driver.start(driver.write_script(JVM_DIES))
    driver.wait_for_output("JVM pid ")
    (java,) = [int(line.split()[2]) for line in driver.output().splitlines() if line.startswith("JVM pid ")]
    os.kill(java, signal.SIGKILL)
    assert driver.wait() == 1
    end = driver.exit_record()
    assert (end["how"], end["java_status"]) == ("failed", -signal.SIGKILL)
    assert end["reason"].startswith("the JVM was killed by SIGKILL, then ")
