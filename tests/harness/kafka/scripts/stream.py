"""`stream.py --servers S --topic T --output DIR [--lossy]`: copy each record as "partition offset value" for ever."""

from holdfast.job import context

ctx = context()
source = ctx.spark.readStream.format("kafka").option("kafka.bootstrap.servers", ctx.args.servers)
source = source.option("subscribe", ctx.args.topic).option("startingOffsets", "earliest")
if "lossy" in ctx.args:
    source = source.option("failOnDataLoss", "false")
lines = source.load().selectExpr("concat_ws(' ', partition, offset, cast(value as string)) AS value")
query = lines.writeStream.format("text").option("path", ctx.args.output).trigger(processingTime="500 milliseconds")
ctx.run(query.option("checkpointLocation", ctx.checkpoint).start())
