"""Check of the applications' clients: brokers do not report them, so ``--client`` names them and a table rates them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from kgroup.groups.migration.check import CheckStatus, CheckSubject, MigrationCheck
from kgroup.groups.migration.evidence import ApplicationClient, MigrationCase
from kgroup.groups.migration.known_versions import (
    Certainty,
    ClientDefect,
    ClientRow,
    ClientSupport,
    DefectLevel,
    MigrationRules,
    Version,
    has_fix,
    parse_version,
)
from kgroup.support.errors import UsageError

CLIENTS = CheckSubject(
    "clients",
    "the application's client is new enough (--client), by the table of clients",
    "kgroup/data/clients.yaml, each row with its own source",
    "client version",
)
_FORM = "[GROUP=]NAME:VERSION, like java:4.4.0 or pay-svc=librdkafka:2.15.0"
_NOT_APACHE = ("-ccs", "-ce")
_HEAVY = (CheckStatus.OK, CheckStatus.INFO, CheckStatus.UNKNOWN, CheckStatus.WARNING, CheckStatus.BLOCKED)


def parse_clients(texts: Sequence[str]) -> tuple[tuple[str | None, ApplicationClient], ...]:
    """``[GROUP=]NAME:VERSION`` as (group, client), each once; the group is None if the client is for all groups.

    Raises UsageError for another form or an invalid version. The name is not checked against the table.
    """
    return tuple(dict.fromkeys(_parse(text) for text in texts))


def _parse(text: str) -> tuple[str | None, ApplicationClient]:
    # Group names may have any character, so the last separators count; clients and versions contain none.
    group, equals, rest = text.strip().rpartition("=")
    name, colon, version = rest.rpartition(":")
    if not colon or not name.strip() or not version.strip() or (equals and not group.strip()):
        raise UsageError(f"--client {text}: not a client", hint=f"It is {_FORM}")
    if version.strip().endswith(_NOT_APACHE):
        raise UsageError(
            f"--client {text}: that is Confluent Platform's number",
            hint="Give the version of Apache Kafka: Confluent Platform 8.0 has 4.0, 8.1 has 4.1, 7.9 has 3.9",
        )
    if parse_version(version) is None:
        raise UsageError(f"--client {text}: {version.strip()} is not a version", hint=f"It is {_FORM}")
    return (group.strip() if equals else None), ApplicationClient(_folded(name), version.strip())


def known_client(name: str, rules: MigrationRules) -> ClientRow:
    """The row of a client by one of its names; upper or lower case, ``_`` or ``-`` make no difference.

    Raises UsageError, with similar names and all known ones, for a name that is not in the table.
    """
    row = _row(name, rules)
    if row is not None:
        return row
    names = {_folded(also): row.name for row in rules.clients for also in row.names}
    close = [names[near] for near in get_close_matches(_folded(name), names, n=3)]
    parts = [own for near, own in names.items() if _folded(name) in near or near in _folded(name)]
    near_names = list(dict.fromkeys((*close, *parts)))[:3]
    raise UsageError(
        f"--client {name}: not in the table of clients",
        details=(f"Near: {', '.join(near_names)}",) if near_names else (),
        hint=f"Known are {', '.join(sorted(row.name for row in rules.clients))}",
    )


def minimum_versions(rules: MigrationRules) -> str:
    """The minimum versions in a sentence: ``Needed: Java 4.0 (4.4.0 advised), ...; not usable: ...``."""
    needed = [_needed_version(row) for row in rules.clients if row.support is ClientSupport.FULL and row.usable_from]
    lacking = [row.title for row in rules.clients if row.support is ClientSupport.NONE]
    text = f"Needed: {', '.join(needed)}" if needed else "No client is known"
    return f"{text}; not usable: {', '.join(lacking)}" if lacking else text


def _needed_version(row: ClientRow) -> str:
    advised = f" ({row.recommended} advised)" if row.recommended else " (wait for a release)" if row.wait else ""
    return f"{row.title} {row.usable_from}{advised}"


def check_clients(case: MigrationCase) -> MigrationCheck | None:
    """The worst result among the named clients, with the evidence and remedies of all of them."""
    if not case.to_consumer:
        return None
    named = case.evidence.clients
    if not named:
        return CLIENTS.unknown("not given, and not visible to Kafka", remedy="check with --client NAME:VERSION")
    checks = sorted((_check_client(client, case.rules) for client in named), key=lambda c: _HEAVY.index(c.status))
    heaviest = checks[-1]
    evidence = "; ".join(check.evidence for check in reversed(checks))
    remedies = dict.fromkeys(check.remedy for check in reversed(checks) if check.remedy)
    remedy = "; ".join(remedies) or None
    return MigrationCheck(CLIENTS.id, heaviest.status, evidence, CLIENTS.source, heaviest.brief, remedy)


def _check_client(client: ApplicationClient, rules: MigrationRules) -> MigrationCheck:
    row, version = _row(client.name, rules), parse_version(client.version)
    named = f"{client.name} {client.version}"
    if row is None or version is None:
        return CLIENTS.unknown(f"{named}: not in the table of clients")
    certainty = f"{row.certainty}: {row.source}"
    if row.support is ClientSupport.NONE:
        return CLIENTS.blocked(
            f"{row.title} does not speak the consumer protocol ({certainty}){_and_notes(row)}",
            brief=f"{row.name}: not supported",
            remedy=f"leave what uses {row.title} on the classic protocol, or change the client",
        )
    if row.support is ClientSupport.UNKNOWN:
        return _unknown(row, named, certainty)
    if row.last_major is not None and version[0] > row.last_major:
        return CLIENTS.warning(
            f"{row.title} has no release {client.version}; Confluent Platform 8.0 has Apache Kafka 4.0, 8.1 has 4.1",
            brief=f"no {row.name} {client.version}",
            remedy="give the version of Apache Kafka",
        )
    return _by_version(row, client, version, certainty)


def _unknown(row: ClientRow, named: str, certainty: str) -> MigrationCheck:
    if row.follows is not None:
        return CLIENTS.unknown(
            f"{named}: passes settings through to {row.follows}, whose version counts ({certainty}){_and_notes(row)}",
            remedy=f"add --client {row.follows}:VERSION",
        )
    return CLIENTS.warning(
        f"{named}: whether it speaks the consumer protocol is not known ({certainty}){_and_notes(row)}",
        brief=f"{row.name}: not known",
        remedy="try it on another cluster first",
    )


def _by_version(row: ClientRow, client: ApplicationClient, version: Version, certainty: str) -> MigrationCheck:
    named = f"{client.name} {client.version}"
    usable, advised = _parsed(row.usable_from), _parsed(row.recommended)
    defects = [defect for defect in row.defects if not has_fix(version, defect.fixed_in)]
    known = f"; has {'; '.join(_defect_text(defect) for defect in defects)}" if defects else ""
    if usable is not None and version < usable:
        return CLIENTS.blocked(
            f"{named}: usable from {row.usable_from} on ({certainty})",
            brief=f"{row.name} {client.version} < {row.usable_from}",
            remedy=f"{row.title} {row.recommended or row.usable_from} or newer",
        )
    if row.wait:
        return CLIENTS.warning(
            f"{named}: no release can be advised yet ({certainty}){known}{_and_notes(row)}",
            brief=f"{row.name}: wait for a release",
            remedy="stay on the classic protocol, or try it on another cluster first",
        )
    if advised is not None and version < advised:
        return CLIENTS.warning(
            f"{named}: usable, but {row.recommended} or newer is advised ({row.recommended_certainty}: {row.source})"
            f"{known}",
            brief=f"{row.name} {client.version} < {row.recommended}",
            remedy=f"{row.title} {row.recommended} or newer",
        )
    serious = [defect for defect in defects if defect.level is DefectLevel.WARNING]
    if serious:
        return CLIENTS.warning(
            f"{named}: usable ({certainty}){known}",
            brief=f"{row.name}: {serious[0].id}",
            remedy="Read that first.",
        )
    if usable is None:
        return CLIENTS.unknown(
            f"{named}: it speaks the protocol, from which version on is not known ({certainty}){known}"
        )
    return CLIENTS.ok(
        f"{named}: as advised ({certainty}){known}" if advised else f"{named}: usable ({certainty}){known}"
    )


def _defect_text(defect: ClientDefect) -> str:
    fixed = f"fixed in {', '.join(defect.fixed_in)}" if defect.fixed_in else "open"
    doubt = "" if defect.certainty is Certainty.CONFIRMED else f", {defect.certainty}"
    return f"{defect.id} {defect.what} ({fixed}{doubt})"


def _and_notes(row: ClientRow) -> str:
    return "".join(f"; {note}" for note in row.notes)


def _parsed(text: str | None) -> Version | None:
    return parse_version(text) if text else None


def _row(name: str, rules: MigrationRules) -> ClientRow | None:
    folded = _folded(name)
    return next((row for row in rules.clients if folded in map(_folded, row.names)), None)


def _folded(name: str) -> str:
    return name.strip().lower().replace("_", "-")
