"""Three streams that read the same files, each with its own checkpoint.

`windows` counts by window into files, with its state in RocksDB. `totals` counts into a noop sink, with its state in delta
files. `rows` copies to files and has no state. `streams.py ROOT make FILES` runs each stream once per input file.
`streams.py ROOT resume` runs the streams named on standard input, one "KIND FOLDER" per line, over all input files, and prints
the resulting output or the error of each.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

STATE_IN = "spark.sql.streaming.stateStore.providerClass"
PROVIDERS = {
    "windows": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "totals": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
root, command = Path(sys.argv[1]), sys.argv[2]
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def feed(number: int) -> None:
    hidden = root / "in" / f".{number}"
    hidden.parent.mkdir(parents=True, exist_ok=True)
    hidden.write_text("".join(f"{number * 100 + row},2026-01-01T00:{number:02d}:{row:02d}\n" for row in range(10)))
    hidden.rename(root / "in" / f"{number}.csv")


def result(kind: str, rows: DataFrame) -> DataFrame:
    if kind == "rows":
        return rows
    key = (f.col("n") % 3).alias("key")
    if kind == "totals":
        return rows.groupBy(key).count()
    windows = rows.withWatermark("at", "1 minute").groupBy(f.window("at", "1 minute"), key).count()
    return windows.select(f.unix_timestamp("window.start").alias("start"), "key", "count")


def run(kind: str, folder: Path) -> None:
    if kind in PROVIDERS:
        spark.conf.set(STATE_IN, PROVIDERS[kind])
    rows = spark.readStream.schema("n long, at timestamp").csv(str(root / "in"))
    writer = result(kind, rows).writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    if kind == "totals":
        query = writer.outputMode("complete").format("noop").start()
    else:
        query = writer.format("parquet").start(str(folder / "out"))
    query.awaitTermination()


def output(kind: str, folder: Path) -> object:
    if kind == "totals":
        state = spark.read.format("statestore").load(str(folder / "checkpoint"))
        return sorted([row["key"][0], row["value"][0]] for row in state.collect())
    columns = ["n"] if kind == "rows" else ["start", "key", "count"]
    return sorted(list(row) for row in spark.read.parquet(str(folder / "out")).select(*columns).collect())


if command == "make":
    for number in range(int(sys.argv[3])):
        feed(number)
        for kind in ("windows", "totals", "rows"):
            run(kind, root / kind)
    feed(int(sys.argv[3]))
else:
    for line in sys.stdin.read().splitlines():
        kind, _, folder = line.partition(" ")
        try:
            run(kind, Path(folder))
            result_of = {"output": output(kind, Path(folder))}
        except Exception as error:  # noqa: BLE001 -- any error of Spark is a result
            result_of = {"failed": " ".join(str(error).split())[:300]}
        sys.stdout.write(f"RESULT {json.dumps({'folder': folder, **result_of})}\n")
