"""Reads text files, finds the most frequent words, writes them and ends. A job may be that, too.

holdfast submit examples/batch.py -- --input /data/texts --output /data/top --top 10
spark-submit examples/batch.py --input /data/texts --output /data/top
"""

from pyspark.sql.functions import col, explode, split

from holdfast.job import context

ctx = context()
lines = ctx.spark.read.text(ctx.args.input)
words = lines.select(explode(split(col("value"), r"\s+")).alias("word")).where("word != ''")
top = words.groupBy("word").count().orderBy(col("count").desc(), "word").limit(int(getattr(ctx.args, "top", "20")))

# An attempt that follows another one replaces whatever that has left behind.
top.coalesce(1).write.mode("overwrite").json(ctx.args.output)
