"""A Spark session with the jars of a table format: it reads a table, makes one, or delivers a plan into one.

Arguments: the settings of the session and what it does, as JSON. It runs with a PySpark that the jars were built for.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

import kgroup.spark
from kgroup.spark import ChunkGroup


def session(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(settings: Mapping[str, str], work: Mapping[str, str]) -> None:
    spark = session(settings)
    if "sql" in work:
        spark.sql(work["sql"])
    if "code" in work:  # of the manual
        manual: dict[str, object] = {"spark": spark}
        exec(work["code"], manual)
    if "plan" in work:

        def append(df: DataFrame, chunk: ChunkGroup) -> None:
            df.write.format("delta").options(**chunk.txn).mode("append").save(work["to"])
            if str(chunk.number) == work.get("killed_at"):
                os.kill(os.getpid(), signal.SIGKILL)

        kgroup.spark.gap(spark, work["plan"], chunks=1).for_each(append)
    if "read" in work:
        rows = spark.read.format(work["format"]).load(work["read"])
        sys.stdout.write(json.dumps([list(row) for row in rows.select(*work["columns"].split()).collect()]) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
