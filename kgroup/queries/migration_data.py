"""The tables of clients and broker defects, read from ``kgroup/data``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

from kgroup.groups.migration.known_versions import (
    BrokerDefect,
    Certainty,
    ClientDefect,
    ClientRow,
    ClientSupport,
    DefectLevel,
    KnownProduct,
    MigrationRules,
)
from kgroup.queries.data_files import read_tables

_ENUMS = {
    "support": ClientSupport,
    "certainty": Certainty,
    "recommended_certainty": Certainty,
    "level": DefectLevel,
}
_Row = TypeVar("_Row")


@cache
def load_rules() -> MigrationRules:
    """The tables of this kgroup release. Raises KgroupError if they are damaged."""
    return read_tables(_rules, "clients.yaml", "broker_defects.yaml")


def _rules(clients: Mapping[str, Any], defects: Mapping[str, Any]) -> MigrationRules:
    return MigrationRules(
        clients=_rows(ClientRow, clients["clients"]),
        monitors=_rows(KnownProduct, clients["monitors"]),
        broker_defects=_rows(BrokerDefect, defects["defects"]),
        services=_rows(KnownProduct, defects["services"]),
        proxies=_rows(KnownProduct, defects["proxies"]),
        gateways=_rows(KnownProduct, defects["gateways"]),
        read_on=min(clients["read_on"], defects["read_on"]),
    )


def _rows(of: type[_Row], items: Iterable[Mapping[str, Any]]) -> tuple[_Row, ...]:
    return tuple(of(**{name: _field(name, value) for name, value in item.items()}) for item in items)


def _field(name: str, value: Any) -> Any:
    if name == "defects":
        return _rows(ClientDefect, value)
    if isinstance(value, list):
        return tuple(value)
    return _ENUMS[name](value) if name in _ENUMS else value
