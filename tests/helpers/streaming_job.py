"""A streaming query as its user writes it; its one argument is a ``QuerySpec`` as JSON. It needs PySpark alone.

Lines of stdout: ``started``, then ``N begins`` and ``N written`` of each batch N that a Python function writes,
``idle`` when it first waits for data, and ``ended`` or ``failed MESSAGE``. Lines of stdin: ``go`` lets the held batch
go on; at the end of stdin the query stops.
"""

from __future__ import annotations

import json
import sys
import threading
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter


def say(line: str) -> None:
    """One line of stdout, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def session(jars: list[str], conf: dict[str, str]) -> SparkSession:
    """One core, loopback alone."""
    builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "1")
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    for key, value in {"spark.jars": ",".join(jars), **conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(spec: dict[str, Any]) -> None:
    """Run the query until it ends, or until stdin does."""
    spark = session(spec["jars"], spec["conf"])
    go_on = threading.Event()

    def write(df: DataFrame, batch: int) -> None:
        say(f"{batch} begins")
        if batch == spec["hold_before"]:
            go_on.wait()
        df.write.format(spec["format"]).options(**spec["sink"]).mode("append").save()
        say(f"{batch} written")
        if batch == spec["hold_after"]:
            go_on.wait()

    readers = [spark.readStream.format(kind).options(**options) for kind, options in spec["sources"]]
    if spec["names"]:
        readers = [reader.name(name) for reader, name in zip(readers, spec["names"], strict=True)]
    loaded = (reader.load() for reader in readers)
    rows = reduce(DataFrame.union, (each.selectExpr("CAST(value AS STRING) AS value") for each in loaded))
    if spec["count"]:
        rows = rows.groupBy("value").count().selectExpr("CAST(count AS STRING) AS value")
    # Counts and real-time mode ask for "update", Spark's file sink and Delta for "append".
    appends = spec["format"] in ("text", "delta") and not spec["by_function"]
    writer = rows.writeStream.outputMode("append" if appends else "update")
    writer = writer.option("checkpointLocation", spec["checkpoint"])
    if spec["by_function"]:
        writer = writer.foreachBatch(write)
    else:
        writer = writer.format(spec["format"]).options(**spec["sink"])
    query = triggered(writer, spec["trigger"], spark).start()
    say("started")

    if "once" not in spec["trigger"]:  # such a job ends by itself, and may have no stdin
        threading.Thread(target=listen, args=(query, go_on), daemon=True).start()
    try:
        say_when_idle(query)
        query.awaitTermination()
        say("ended")
    except Exception as error:
        say("failed " + " ".join(str(error).split()))


def say_when_idle(query: StreamingQuery) -> None:
    """Return then, or when it has ended. By then it has read its checkpoint, and has no batch planned."""
    while not query.awaitTermination(1):
        if query.status["message"] == "Waiting for data to arrive":
            say("idle")
            return


def listen(query: StreamingQuery, go_on: threading.Event) -> None:
    """Let the held batch go on at each line of stdin, and stop the query at its end."""
    for _ in sys.stdin:
        go_on.set()
    query.stop()
    go_on.set()


def triggered(writer: DataStreamWriter, trigger: dict[str, Any], spark: SparkSession) -> DataStreamWriter:
    """With its trigger: Python's ``trigger`` does not have real-time mode in every version."""
    if "realTime" not in trigger:
        return writer.trigger(**trigger)
    found = spark._jvm.org.apache.spark.sql.streaming.Trigger.RealTime(trigger["realTime"])  # type: ignore[union-attr]
    writer._jwrite = writer._jwrite.trigger(found)
    return writer


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
