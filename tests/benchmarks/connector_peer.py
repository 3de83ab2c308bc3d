"""Spark's own Kafka connector, for the benchmarks: it runs in an environment of its own, without kgroup.

A line of stdin is a job: a topic is written as Parquet, or without a directory only read. A line of stdout is how many
seconds it took; the first one says that it is ready.
"""

from __future__ import annotations

import json
import shutil
import sys
import time

from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    """``connector_peer.py PACKAGE BOOTSTRAP MASTER [IVY-SETTINGS]``"""
    package, bootstrap, master, *ivy = sys.argv[1:]
    builder = SparkSession.builder.master(master).appName("peer").config("spark.jars.packages", package)
    if ivy:
        builder = builder.config("spark.jars.ivySettings", ivy[0])
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.driver.memory", "2g").getOrCreate()
    print("ready", flush=True)
    for line in sys.stdin:
        topic, ends, directory, codec, options = line.rstrip("\n").split("\t")
        began = time.perf_counter()
        rows = read(spark, bootstrap, topic, json.loads(ends), json.loads(options))
        if directory:
            rows.write.option("compression", codec).parquet(directory)
        else:
            rows.write.format("noop").mode("append").save()
        took = time.perf_counter() - began
        if directory:
            shutil.rmtree(directory)
        print(took, flush=True)
    spark.stop()


def read(spark: SparkSession, bootstrap: str, topic: str, ends: list[int], options: dict[str, str]) -> DataFrame:
    """All of a topic below these ends: a task a partition, committed records only."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .options(**options)
        .option("subscribe", topic)
        .option("startingOffsets", json.dumps({topic: {str(number): 0 for number in range(len(ends))}}))
        .option("endingOffsets", json.dumps({topic: {str(number): end for number, end in enumerate(ends)}}))
        .load()
    )


if __name__ == "__main__":
    main()
