"""Words that users know from other tools, and the kgroup form of each. Hints only: no hidden aliases.

No hint contains ``--execute``: a pasted hint must not change anything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from kgroup.support.quoting import join

VERBS = {
    "get": "list",
    "ls": "list",
    "groups": "list",
    "top": "lag",
    "status": "describe",
    "show": "describe",
    "info": "describe",
    "seek": "reset",
    "rollback": "undo",
    "pause": "catchup stop",
    "upgrade": "migrate",
    "convert": "migrate",
    "downgrade": "migrate --protocol classic",
    "remove": "delete",
    "rm": "delete",
    "config": "context",
    "profile": "context",
}

KCG_VERBS = {
    "--describe": "describe",
    "--list": "list",
    "--reset-offsets": "reset",
    "--delete": "delete",
    "--delete-offsets": "delete-offsets",
    "--validate-regex": "list --regex",
    "--export": "export",
}

_NEVER_HINTED = frozenset({"--execute", "-y", "--yes", "--force"})

FLAGS = {
    "--state": "to filter: --in-state STATE; the state of a group: kgroup describe GROUP --state",
    "--yes": "plans are shown first and there are no prompts; the flag that changes things is --execute",
    "-y": "plans are shown first and there are no prompts; the flag that changes things is --execute",
    "--force": "there is no --force; each refusal names the code that --accept takes",
    "--json": "-o json",
    "--format": "-o json, yaml, csv, wide or markdown",
    "--brokers": "-b HOST:PORT, or --bootstrap-server",
    "--broker-list": "-b HOST:PORT, or --bootstrap-server",
    "--zookeeper": "-b HOST:PORT, or --bootstrap-server",
    "--config": "--command-config FILE",
    "--cluster": "--context NAME",
    "--group-protocol": "kgroup migrate --protocol consumer, or classic",
    "--new-consumer": "leave it out",
}


def verb_hint(word: str, verbs: Collection[str], path: str = "kgroup") -> str | None:
    """The verb that ``word`` means below ``path`` (``kgroup``, ``kgroup context``); None if no verb is similar."""
    meant = VERBS.get(word) if path == "kgroup" else None
    if meant is not None and meant.split()[0] in verbs:
        return f"{path} {meant}"
    near = get_close_matches(word, verbs, n=1)
    return f"{path} {near[0]}" if near else None


def kcg_form(arguments: Sequence[str], verbs: Collection[str]) -> str | None:
    """The kgroup form of a kafka-consumer-groups.sh command line; None if it contains none of ``verbs``.

    ``--reset-offsets --group pay --topic t --to-earliest --execute`` becomes ``kgroup reset --group pay --topic t
    --to-earliest``.
    """
    found = [KCG_VERBS[word] for word in arguments if word in KCG_VERBS]
    known = [verb for verb in found if verb.split()[0] in verbs]
    if not known:
        return None
    verb = "export" if "export" in known else known[0]
    if arguments[0] in verbs:
        arguments = arguments[1:]
    rest = [word for word in arguments if word not in KCG_VERBS and word.partition("=")[0] not in _NEVER_HINTED]
    return f"kgroup {verb} {join(rest)}".rstrip()


def flag_hint(flag: str, known: Collection[str]) -> str | None:
    """What to type instead of an unknown flag."""
    if flag in FLAGS:
        return FLAGS[flag]
    near = get_close_matches(flag, known, n=1)
    return f"near: {near[0]}" if near else None
