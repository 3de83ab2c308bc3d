"""What ``import kgroup.consumer`` costs an application that has confluent-kafka."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import confluent_kafka, json, sys
before = set(sys.modules)
import kgroup.consumer
print(json.dumps(sorted(set(sys.modules) - before)))
"""
MOST_MODULES = 80
"""It was 70 when the import took 45 ms of CPU on a busy machine, half of it for msgspec and what that imports."""


def test_an_application_imports_little_and_nothing_of_spark_or_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)

    assert len(modules) <= MOST_MODULES
    heavy = ("kafka", "pyspark", "pyarrow", "rich", "typer", "yaml", "kgroup.cli", "kgroup.settings", "kgroup.output")
    assert [name for name in modules if name.startswith(heavy)] == []
    assert "kgroup.catchup.ledger" not in modules, "what only a gap needs is imported in the background"


def test_the_ledger_s_part_needs_no_spark_and_no_command_line() -> None:
    script = SCRIPT.replace("import kgroup.consumer", "import kgroup.consumer, kgroup.catchup.member_release")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = ("kafka.", "pyspark", "pyarrow", "rich", "typer", "yaml", "kgroup.cli", "kgroup.settings", "kgroup.output")

    assert [name for name in json.loads(done.stdout) if name.startswith((*heavy, "kgroup.catchup.service"))] == []


def test_the_application_s_own_names_of_confluent_kafka_are_there_in_either_order() -> None:
    script = (
        "import kgroup.consumer; from confluent_kafka import Consumer, DeserializingConsumer, TIMESTAMP_CREATE_TIME"
    )

    subprocess.run([sys.executable, "-c", script], check=True)
