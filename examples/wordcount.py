"""Streaming job: count the words in a directory of text files, and keep the result up to date as files arrive.

    holdfast submit examples/wordcount.py -- --input /data/texts --output /data/counts
    spark-submit examples/wordcount.py --input /data/texts --output /data/counts

The job never overwrites an output that existed before its first attempt: it fails with PATH_ALREADY_EXISTS. It continues its
own output after every restart.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, explode, split

from holdfast.job import context

ctx = context()
spark = ctx.spark


def exists(path: str) -> bool:
    try:
        spark.read.text(path)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True


def write(counts: DataFrame, batch_id: int) -> None:
    # Complete mode passes the whole result each time, so repeating a batch after a crash is harmless.
    counts.orderBy(col("count").desc(), "word").coalesce(1).write.mode("overwrite").json(ctx.args.output)


# A marker in the job's checkpoint records that the output belongs to this job. It is written before the output, so a job that
# is killed in between never mistakes its own output for a foreign one.
marker = f"{ctx.checkpoint}/output-is-mine"
if not exists(marker):
    if exists(ctx.args.output):
        spark.range(0).write.mode("errorifexists").json(ctx.args.output)  # raises PATH_ALREADY_EXISTS
    spark.range(1).write.mode("overwrite").json(marker)

words = spark.readStream.text(ctx.args.input).select(explode(split(col("value"), r"\s+")).alias("word")).where("word != ''")
query = (
    words.groupBy("word")
    .count()
    .writeStream.outputMode("complete")
    .option("checkpointLocation", ctx.checkpoint)
    .foreachBatch(write)
    .start()
)
ctx.run(query)
