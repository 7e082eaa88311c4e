"""What real exceptions of Spark become: sentences that name the cause, its class and the line. One driver meets them all."""

import json
import os
import signal

import pytest

from tests.harness.drivers import Driver

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

FAILS = """
import json, os, time
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from holdfast.driver.failure_message import describe

spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
out = os.environ["HOME"] + "/out"

@udf("int")
def divide(value):
    return 1 // 0

def tell(what, action):
    try:
        action()
    except Exception as error:
        failure = describe(error, __file__)
        print("TOLD", json.dumps([what, failure.reason, failure.condition, failure.exception]))

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
    # As another driver on the same checkpoint would.
    with open(os.path.join(os.environ["HOLDFAST_CHECKPOINT"], "raced", "commits", str(batch_id)), "w") as file:
        file.write("v1\\n{}")

def nothing(batch, batch_id):
    "It does not even look at its rows."

spark.range(1).write.json(out)
tell("path", lambda: spark.range(1).write.json(out))
tell("no path", lambda: spark.read.json("/nowhere"))
tell("java", lambda: spark._jvm.java.util.ArrayList(2147483647))
tell("batch", lambda: run(rate.writeStream.foreachBatch(boom)))
tell("batch path", lambda: run(rate.writeStream.foreachBatch(exists)))
tell("udf", lambda: run(rate.select(divide("value")).writeStream.format("noop")))
tell("race", lambda: run(rate.writeStream.queryName("raced").foreachBatch(race)))
tell("state", lambda: run(rate.groupBy("value").count().writeStream.outputMode("update").foreachBatch(nothing)))
tell("bad query", lambda: rate.writeStream.format("nonsense").start())
print("UNNAMED", sorted(name for name in os.listdir(os.environ["HOLDFAST_CHECKPOINT"]) if name.startswith("query-")))
rate.writeStream.queryName("last").foreachBatch(last).start()
"""


def line_with(text: str) -> str:
    (line,) = [number for number, line in enumerate(FAILS.splitlines(), 1) if text in line]
    return f"(line {line} of script.py)"


def test_each_names_its_cause_and_its_line(driver: Driver) -> None:
    assert driver.run(FAILS) == 1
    lines = driver.output().splitlines()
    told = {what: rest for what, *rest in (json.loads(line[5:]) for line in lines if line.startswith("TOLD "))}
    out = f"its output path file:{driver.work}/out exists already (PATH_ALREADY_EXISTS)"
    assert told["path"] == [f"{out} {line_with('range(1).write.json(out))')}", "PATH_ALREADY_EXISTS", "AnalysisException"]
    assert told["batch path"] == [f"{out} {line_with('range(2)')}", "PATH_ALREADY_EXISTS", "AnalysisException"]
    assert told["no path"][1] == "PATH_NOT_FOUND" and "Path does not exist: file:/nowhere" in told["no path"][0]
    assert told["java"][2] == "java.lang.OutOfMemoryError"
    boom = "its script failed: ValueError: boom (FOREACH_BATCH_USER_FUNCTION_ERROR)"
    assert told["batch"][0] == f"{boom} {line_with('raise ValueError')}"
    divided = "its script failed: ZeroDivisionError: integer division or modulo by zero (PYTHON_EXCEPTION)"
    assert told["udf"][0] == f"{divided} {line_with('1 // 0')}"
    assert told["race"][1] == "CONCURRENT_STREAM_LOG_UPDATE"
    assert told["state"][1] == "STATE_STORE_COMMIT_VALIDATION_FAILED" and "awaitResult" not in told["state"][0]
    assert "nonsense" in told["bad query"][0]
    assert "UNNAMED ['query-1', 'query-2', 'query-3', 'query-4']" in lines, "a query that did not start used up no number"

    # The last query fails behind the last line of the script. A bare Spark would have ended with 0 before that.
    reason = f"its script failed: KeyError: 'last' (FOREACH_BATCH_USER_FUNCTION_ERROR) {line_with('raise KeyError')}"
    assert driver.end()["reason"] == reason
    assert "holdfast/job" not in driver.output()


JAVA_DIES = """
from holdfast.job import context

ctx = context()
query = ctx.spark.readStream.format("rate").load().writeStream.format("noop").start()
print("java is", ctx.spark._jvm.java.lang.ProcessHandle.current().pid())
ctx.run(query)
"""


def test_a_java_that_is_killed_is_what_the_sentence_says(driver: Driver) -> None:
    driver.start(driver.put(JAVA_DIES))
    driver.until_printed("java is ")
    (java,) = [int(line.split()[2]) for line in driver.output().splitlines() if line.startswith("java is ")]
    os.kill(java, signal.SIGKILL)
    assert driver.wait() == 1
    end = driver.end()
    assert (end["how"], end["java_status"]) == ("failed", -signal.SIGKILL)
    assert end["reason"].startswith("its Java process was killed by SIGKILL, and then ")
