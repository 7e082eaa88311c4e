"""CPU-bound streaming job: `busy.py INPUT FILES_PER_BATCH DIRECTORY` parses JSON, calls a Python UDF per row and aggregates."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, sum, udf

source, files, directory = sys.argv[1:]
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = spark.readStream.schema("id long, word string, amount double").option("maxFilesPerTrigger", files).json(source)
reversed_words = rows.withColumn("word", udf(lambda word: word[::-1].upper())(col("word")))
totals = reversed_words.groupBy("word").agg(count("*").alias("rows"), sum("amount").alias("amount"))
query = (
    totals.writeStream.outputMode("update")
    .foreachBatch(lambda batch, _: batch.write.mode("overwrite").parquet(f"{directory}/out"))
    .option("checkpointLocation", f"{directory}/checkpoint")
    .start()
)
query.awaitTermination()
