"""Counts words in the text files of a directory, for ever: a stream that keeps one result up to date.

    holdfast submit examples/wordcount.py -- --input /data/texts --output /data/counts
    spark-submit examples/wordcount.py --input /data/texts --output /data/counts

An output that is there before this job's first attempt is somebody else's: the job fails with PATH_ALREADY_EXISTS and touches
nothing. An output that this job has begun to write is its own, however often it is started again.
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
    # Complete mode hands over the whole result each time, so a batch that is repeated does no harm.
    counts.orderBy(col("count").desc(), "word").coalesce(1).write.mode("overwrite").json(ctx.args.output)


# A mark in the checkpoint, where no other job looks, says that the output is this job's. It is made before the output: there is
# no moment at which the job could be killed and would take its own output for a stranger's when it is started again.
mark = f"{ctx.checkpoint}/output-is-mine"
if not exists(mark):
    if exists(ctx.args.output):
        spark.range(0).write.mode("errorifexists").json(ctx.args.output)
    spark.range(1).write.mode("overwrite").json(mark)

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
