"""A process that writes records of the ledger in a transaction and stands there, to be killed before its commit.

One argument: JSON with ``bootstrap``, ``ledger``, ``transactional_id`` and ``records`` ([[key, value], ...]). It says
``open`` when the log has them.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kgroup.cluster.transactions import Transactions


def main(what: dict[str, Any]) -> None:
    config = {"bootstrap.servers": what["bootstrap"]}
    transactions = Transactions(config, what["transactional_id"], topic=what["ledger"], timeout_s=30)
    transactions.fence()
    transactions.begin()
    for key, value in what["records"]:
        transactions.produce(what["ledger"], key.encode(), value.encode(), 0)
    assert transactions.producer.flush(30) == 0
    sys.stdout.write("open\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
