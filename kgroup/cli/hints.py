"""Words that users know from other tools, and the kgroup form of each. Hints only: no hidden aliases.

No hint contains ``--execute``: a pasted hint must not change anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from kgroup.support.quoting import join


def _by_word(words: Mapping[str, str]) -> dict[str, str]:
    return {word: verb for verb, of_verb in words.items() for word in of_verb.split()}


VERBS = _by_word(
    {
        "list": "get ls groups consumers",
        "lag": "top",
        "describe": "status show info offsets",
        "peek": "cat consume read tail poison poison-pill",
        "reset": "seek rewind move set",
        "undo": "rollback revert journal",
        "catchup stop": "pause stop",
        "migrate": "upgrade convert",
        "migrate --protocol classic": "downgrade",
        "delete": "remove rm drop",
        "context": "config profile cluster",
        "doctor": "check diagnose",
        "history": "why events rebalances rebalance log",
        "lag --watch": "monitor watch",
        "describe --members": "members",
        "reset --shift-by 1": "skip",
        "reset --from-file": "restore import",
        "export": "backup dump snapshot",
        "evict": "kick fence",
        "simulate": "scale what-if",
        "catchup start": "replay start",
        "catchup resume": "resume retry",
        "catchup cancel": "cancel",
        "help": "explain man topics",
        "lag -o prometheus": "metrics",
    }
)
"""Words for verbs, with the verb that does the same; a verb that does not exist is never suggested."""

SUBVERBS = {
    "kgroup catchup": _by_word(
        {
            "start": "run begin release plan",
            "check": "test try probe rehearse verify",
            "throttle": "rate limit slow speed",
            "stop": "pause halt end kill",
            "resume": "continue restart retry",
            "done": "finish close complete delivered",
            "cancel": "abort undo rollback",
            "show": "status describe get progress log",
            "list": "ls plans",
            "prune": "delete remove rm clean",
        }
    ),
    "kgroup context": _by_word(
        {
            "list": "ls",
            "use": "set switch select",
            "show": "get describe current",
        }
    ),
    "kgroup sandbox": _by_word(
        {
            "up": "start run restart",
            "down": "stop delete",
            "status": "ps show",
        }
    ),
}
"""What users type below ``kgroup catchup``, ``context`` and ``sandbox``, and the verb that they mean."""

KCG_VERBS = {
    "--describe": "describe",
    "--list": "list",
    "--reset-offsets": "reset",
    "--delete": "delete",
    "--delete-offsets": "delete-offsets",
    "--export": "export",
}

_NEVER_HINTED = frozenset({"--execute", "-y", "--yes", "--force"})

FLAGS = {
    "--state": "to filter: --in-state STATE; the state of a group: kgroup describe GROUP --state",
    **dict.fromkeys(
        ("--yes", "-y", "--confirm", "--apply"),
        "plans are shown first and there are no prompts; the flag that changes things is --execute",
    ),
    "--force": "there is no --force; each refusal has a code for --accept",
    "--json": "-o json",
    "--yaml": "-o yaml",
    "--csv": "-o csv",
    "--wide": "-o wide",
    "--sort-by": "kgroup lag --sort ORDER",
    "--exec": "plans are shown first; the flag that changes things is --execute",
    "--format": "-o json, yaml, csv, wide or markdown",
    **dict.fromkeys(("--brokers", "--broker-list", "--zookeeper"), "-b HOST:PORT, or --bootstrap-server"),
    "--config": "--command-config FILE",
    "--cluster": "--context NAME",
    "--validate-regex": "kgroup does not check patterns; kafka-consumer-groups.sh does, without a cluster",
    "--group-protocol": "kgroup migrate --protocol consumer, or classic",
    "--new-consumer": "leave it out",
}


SAME_FLAGS = {
    "--to": ("--protocol", "--to-topic"),
    "--target": ("--protocol", "--to-topic"),
    "--partition": ("--topic",),
    "--partitions": ("--topic",),
    "--to-beginning": ("--to-earliest",),
    "--from-beginning": ("--to-earliest", "--offset"),
    "--max-messages": ("--count", "--limit"),
    "--silent": ("--quiet",),
    "--colour": ("--no-color",),
    "--color": ("--no-color",),
    "--limit": ("--top", "--count"),
    "--head": ("--top", "--count"),
    "--name": ("--group", "--instance"),
    "--broker": ("--coordinator", "--bootstrap-server"),
    "--server": ("--bootstrap-server",),
    "--earliest": ("--to-earliest",),
    "--to-end": ("--to-latest",),
    "--latest": ("--to-latest",),
    "--offset": ("--to-offset", "--offsets"),
    "--skip": ("--shift-by",),
    "--shift": ("--shift-by",),
    "--to-time": ("--to-datetime", "--as-of"),
    "--to-timestamp": ("--to-datetime", "--as-of"),
    "--timestamp": ("--to-datetime", "--as-of"),
    "--time": ("--to-datetime", "--as-of", "--since"),
    "--at": ("--as-of", "--to-datetime", "--since"),
    "--ago": ("--by-duration", "--as-of", "--since"),
    "--window": ("--since",),
    "--last": ("--since",),
    "--keep": ("--save-skipped",),
    "--save": ("--save-skipped",),
    "--file": ("--from-file",),
    "--throttle": ("--rate",),
    "--limit-rate": ("--rate",),
    "--wait": ("--wait-empty",),
    "--interval": ("--every",),
    "--refresh": ("--every",),
    "--follow": ("--watch",),
    "--watch": ("--follow",),
    "--member-id": ("--member",),
    "--instance-id": ("--instance",),
    "--group-instance-id": ("--instance",),
    "--older-than": ("--idle-for",),
    "--unused-for": ("--idle-for",),
    "--all": ("--all-groups", "--all-topics"),
    "--topics": ("--topic", "--all-topics"),
}
"""Options that mean the same: the first one that the verb has is suggested."""

_TYPO = 0.85
"""From this similarity on, a word is a misspelt name; ``reset-offsets`` and ``delete-offsets`` have 0.81."""

_NEAR_FLAG = 0.7
"""From this similarity on, a flag is near another one; ``--broker`` and ``--property`` have 0.63."""


def verb_hint(word: str, verbs: Collection[str], path: str = "kgroup") -> str | None:
    """The verb that ``word`` means below ``path`` (``kgroup``, ``kgroup context``); None if no verb is similar.

    A misspelt verb goes before a word of the same meaning, and that before a name that only looks similar:
    ``reset-offsets`` is ``reset``, although ``delete-offsets`` has more letters in common.
    """
    meanings = VERBS if path == "kgroup" else SUBVERBS.get(path, {})
    for name in (*get_close_matches(word, verbs, n=1, cutoff=_TYPO), *_meant(word, verbs, meanings)):
        return f"{path} {name}"
    if path == "kgroup" and word == "version":
        return "kgroup --version"
    near = get_close_matches(word, verbs, n=1)
    return f"{path} {near[0]}" if near else None


def _meant(word: str, verbs: Collection[str], meanings: Mapping[str, str]) -> Iterator[str]:
    """What the whole word means; then the first of its parts that is a verb, or means one: ``list-groups``."""
    parts = word.replace("_", "-").split("-")
    for part in (word, *(part for part in parts if part)):
        meant = part if part in verbs else meanings.get(part)
        if meant is not None and meant.split()[0] in verbs:
            yield meant


def kcg_form(arguments: Sequence[str], verbs: Collection[str]) -> str | None:
    """The kgroup form of a kafka-consumer-groups.sh command line; None if it contains none of ``verbs``.

    ``--reset-offsets --group pay --topic t --to-earliest --execute`` becomes ``kgroup reset --group pay --topic t
    --to-earliest``.
    """
    meant = [KCG_VERBS[word] for word in arguments if word in KCG_VERBS]
    known = [verb for verb in meant if verb.split()[0] in verbs]
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
    # A long option is never a short one: "-o" is nearest to "--to" by its letters alone.
    alike = [name for name in known if name.startswith("--") == flag.startswith("--")]
    if near := get_close_matches(flag, alike, n=1, cutoff=_TYPO):
        return f"near: {near[0]}"
    if same := [name for name in SAME_FLAGS.get(flag, ()) if name in known]:
        return same[0]
    near = get_close_matches(flag, alike, n=1, cutoff=_NEAR_FLAG)
    return f"near: {near[0]}" if near else None
