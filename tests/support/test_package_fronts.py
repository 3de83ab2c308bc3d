"""What of kafka-python is imported: each case in a Python of its own, because imports belong to the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLIENTS = ("kafka.admin", "kafka.consumer", "kafka.producer", "kafka.net.compat", "kafka.protocol.admin.users")


def printed(program: str) -> str:
    """What ``program`` writes to stdout, in a new Python; it ends with 0."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_verbs_that_read_import_no_client_of_kafka_python() -> None:
    """``describe`` and ``list`` start with these modules; each client would add 10 to 40 ms."""
    loaded = printed(
        "import sys, kgroup.cluster.snapshot, kgroup.cluster.topics, kgroup.cluster.configs, kgroup.cluster.acls\n"
        f"print([name for name in {CLIENTS!r} if name in sys.modules])"
    )
    assert loaded == "[]"


@pytest.mark.parametrize(
    ("statement", "expression", "value"),
    [
        ("from kafka import KafkaConsumer", "KafkaConsumer.__module__", "kafka.consumer.group"),
        ("import kafka", "kafka.KafkaAdminClient.__name__", "KafkaAdminClient"),
        ("import kafka", "kafka.__title__", "kafka"),
        ("import kafka", "hasattr(kafka, 'NoSuchClient')", "False"),
        ("from kafka import *", "KafkaProducer.__name__", "KafkaProducer"),
        ("from kafka import errors", "errors.KafkaError.__name__", "KafkaError"),
        ("from kafka.net import KafkaNetClient", "KafkaNetClient.__name__", "KafkaNetClient"),
        ("import kafka.protocol.admin as admin", "admin.CreateAclsRequest.__name__", "CreateAclsRequest"),
        ("import kafka.protocol.admin as admin", "admin.ListGroupsRequest.__module__", "kafka.protocol.admin.groups"),
    ],
)
def test_every_name_of_a_package_is_found_when_it_is_asked_for(statement: str, expression: str, value: str) -> None:
    assert printed(f"import kgroup.cluster\n{statement}\nprint({expression})") == value


def test_a_package_that_was_imported_before_stays_as_it_is() -> None:
    assert printed(
        "import kafka, kgroup.cluster\nprint('__getattr__' in vars(kafka), kafka.KafkaConsumer.__name__)"
    ) == ("False KafkaConsumer")


def test_threads_that_ask_at_once_get_the_same_class() -> None:
    program = (
        "import threading, kgroup.cluster, kafka\n"
        "found, start = [], threading.Barrier(8)\n"
        "def ask():\n    start.wait()\n    found.append(kafka.KafkaConsumer)\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "for one in threads: one.start()\n"
        "for one in threads: one.join()\n"
        "print(len(found), len(set(found)))"
    )
    assert printed(program) == "8 1"
