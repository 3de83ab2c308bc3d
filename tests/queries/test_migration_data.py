"""The tables of clients and broker defects: every row is complete, consistent and correctly typed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from inspect import get_annotations
from typing import Any

import pytest

from kgroup.groups.migration import known_versions
from kgroup.groups.migration.known_versions import Certainty, ClientSupport, parse_version
from kgroup.queries.data_files import read_tables
from kgroup.queries.migration_data import load_rules

TABLES = tuple(name for name in known_versions.MigrationRules.__struct_fields__ if name != "read_on")


def version(text: str) -> tuple[int, ...]:
    found = parse_version(text)
    assert found is not None, f"{text} is not a version"
    return found


def of_type(value: object, hint: str) -> bool:
    """Whether a value has the type of its field; texts have words in them."""
    kinds: dict[str, Any] = {"str": str, "bool": bool, "int": int, "None": type(None)}
    if hint.startswith("tuple["):
        return isinstance(value, tuple) and all(of_type(item, hint[6:-6]) for item in value)
    if isinstance(value, str) and not value.strip():
        return False
    return any(type(value) is kinds.get(part, getattr(known_versions, part, None)) for part in hint.split(" | "))


def rows(table: str) -> Iterator[Any]:
    for row in getattr(load_rules(), table):
        yield row
        yield from getattr(row, "defects", ())


@pytest.mark.parametrize("table", TABLES)
def test_every_field_has_its_type(table: str) -> None:
    """A version without quotes would be a number, and 4.10 would be 4.1."""
    wrong = [
        (row, field)
        for row in rows(table)
        for field, hint in get_annotations(type(row)).items()
        if not of_type(getattr(row, field), hint)
    ]

    assert list(rows(table))
    assert wrong == []


def test_every_table_of_the_files_is_read_and_no_name_occurs_twice() -> None:
    rules = load_rules()

    assert read_tables(set, "clients.yaml") == {"read_on", "clients", "monitors"}
    assert read_tables(set, "broker_defects.yaml") == {"read_on", "defects", "services", "proxies", "gateways"}
    for names in (
        [name for row in rules.clients for name in row.names],
        [defect.id for defect in rules.broker_defects],
        [product.name for product in (*rules.services, *rules.proxies, *rules.gateways)],
        [monitor.name for monitor in rules.monitors],
    ):
        assert len(set(names)) == len(names)
    assert load_rules() is rules


def test_the_dates_are_days_and_no_row_is_newer_than_its_table() -> None:
    rules = load_rules()
    read = date.fromisoformat(rules.read_on)
    own = [date.fromisoformat(row.read_on) for table in TABLES for row in getattr(rules, table) if row.read_on]
    assert read > date(2026, 11, 21)
    assert all(day < read for day in own)


def test_clients_are_consistent() -> None:
    clients = load_rules().clients
    for row in clients:
        versions = [version(text) for text in (row.usable_from, row.recommended) if text is not None]
        assert versions == sorted(versions), row.name
        assert row.support is ClientSupport.FULL or not (versions or row.wait), row.name
        assert not (row.wait and row.recommended), row.name
        assert row.follows is None or row.support is ClientSupport.UNKNOWN, row.name
        assert row.follows in {None, *(other.name for other in clients)}, row.name
        assert row.recommended is None or row.recommended_certainty is not Certainty.UNKNOWN, row.name
        assert all(version(text) for defect in row.defects for text in defect.fixed_in), row.name


def test_defects_of_brokers_are_consistent() -> None:
    for defect in load_rules().broker_defects:
        assert all(version(fixed) > version(defect.since) for fixed in defect.fixed_in), defect.id
        assert set(defect.targets) <= {"classic", "consumer"}, defect.id
        assert defect.targets, defect.id
        assert set(defect.policies) <= {"BIDIRECTIONAL", "UPGRADE", "DOWNGRADE", "DISABLED"}, defect.id
