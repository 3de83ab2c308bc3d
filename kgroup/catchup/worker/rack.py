"""The rack of a worker: brokers with a replica selector let its consumers fetch from the replica there (KIP-392)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgroup.settings.environment import variable

VARIABLE = "KGROUP_CLIENT_RACK"
"""Set on the machine of a worker, or with ``spark.executorEnv``. Executors differ in it, ``client.rack`` is for all."""


def in_own_rack(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a worker's clients, with the rack that its environment names."""
    rack = variable(VARIABLE)
    return config if rack is None else {**config, "client.rack": rack}
