"""A job that is all work: `busy.py INPUT FILES_PER_BATCH DIRECTORY` parses JSON, calls Python for each row, and counts."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, sum, udf

source, files, directory = sys.argv[1:]
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = spark.readStream.schema("id long, word string, amount double").option("maxFilesPerTrigger", files).json(source)
folded = rows.withColumn("word", udf(lambda word: word[::-1].upper())(col("word")))
totals = folded.groupBy("word").agg(count("*").alias("rows"), sum("amount").alias("amount"))
query = (
    totals.writeStream.outputMode("update")
    .foreachBatch(lambda batch, _: batch.write.mode("overwrite").parquet(f"{directory}/out"))
    .option("checkpointLocation", f"{directory}/checkpoint")
    .start()
)
query.awaitTermination()
