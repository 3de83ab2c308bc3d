"""Prints the jars of a Maven package, fetched as Spark fetches them: ``jars_of.py PACKAGE EXCLUDES [IVY-SETTINGS]``.

It runs in the environment of the benchmarks' own PySpark, without kgroup.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

package, excludes, *ivy = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars.packages", package).config("spark.jars.excludes", excludes)
if ivy:
    builder = builder.config("spark.jars.ivySettings", ivy[0])
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
for path in (urlsplit(jar).path for jar in (spark.conf.get("spark.jars", "") or "").split(",")):
    print(Path(path))
spark.stop()
