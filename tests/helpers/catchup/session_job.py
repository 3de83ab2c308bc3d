"""A job as its user writes it: delivers a plan with ``kgroup.spark.gap``, and may be killed after a write.

Arguments: the plan, the directory, and the number of the group after whose write it kills itself, or -1; then
the jars of Spark's Kafka source, if that reads, with commas between.
"""

from __future__ import annotations

import os
import signal
import sys

from pyspark.sql import DataFrame, SparkSession

import kgroup.spark
from kgroup.spark import ChunkGroup


def main(plan: str, directory: str, killed_at: int, jars: str | None = None) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if jars is not None:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()

    def write(df: DataFrame, chunk: ChunkGroup) -> None:
        df.write.mode("append").parquet(directory)  # no writer that remembers
        sys.stdout.write(f"{chunk.number} {chunk.may_repeat}\n")
        sys.stdout.flush()
        if chunk.number == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    source = None if jars is None else {"kafka.client.id": "reports", "minPartitions": "3"}
    proof = kgroup.spark.gap(spark, plan, chunks=1, kafka_options=source, take_over=True).for_each(write)
    sys.stdout.write(f"{proof.complete} {proof.delivered} {proof.totals().possible_duplicate_count}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
