"""Batch job: write the most frequent words of a directory of text files to JSON, and end.

    holdfast submit examples/batch.py -- --input /data/texts --output /data/top --top 10
    spark-submit examples/batch.py --input /data/texts --output /data/top

A job need not stream: it is FINISHED when its script ends. Without `--top` it writes 20 words.
"""

from pyspark.sql.functions import col, explode, split

from holdfast.job import context

ctx = context()
lines = ctx.spark.read.text(ctx.args.input)
words = lines.select(explode(split(col("value"), r"\s+")).alias("word")).where("word != ''")
top = words.groupBy("word").count().orderBy(col("count").desc(), "word").limit(int(getattr(ctx.args, "top", "20")))

# Overwrite: a later attempt replaces the partial output of an earlier one.
top.coalesce(1).write.mode("overwrite").json(ctx.args.output)
