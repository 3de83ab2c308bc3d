"""Messages about commits that the broker omits because this user may not DESCRIBE their topic. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgroup.model.kafka_tools import acl_hint
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import NotAuthorized
from kgroup.support.units import plural, some_of

Hidden = tuple[TopicPartition, ...] | None
"""(topic, partition) of hidden commits; None: it is not known whether there are some."""

MAY_BE_MISSING = "commits on topics that you may not describe may be missing"
REMEDY = "DESCRIBE on all topics shows them; READ on __consumer_offsets shows which there are"
_NAMED = 5


def hidden_words(hidden: Hidden) -> str | None:
    """A phrase about the hidden, or possibly hidden, commits of a group; None if the broker shows all commits."""
    if hidden is None:
        return MAY_BE_MISSING
    if not hidden:
        return None
    topics = sorted({topic for topic, _ in hidden})
    return f"{plural(len(hidden), 'commit')} on {some_of(topics, _NAMED)} hidden: no DESCRIBE on Topic"


def not_all_shown(group: str, hidden: Hidden) -> NotAuthorized | None:
    """The error for a question that needs all commits of ``group``; None if the broker shows all commits."""
    words = hidden_words(hidden)
    if words is None:
        return None
    hint = acl_hint("Describe", "topic", hidden[0][0]) if hidden else REMEDY
    return NotAuthorized(f"{group}: {words}", hint=hint)


def hidden_notes(groups: Mapping[str, Hidden]) -> Iterator[str]:
    """A line for each of the first 5 groups with hidden commits, one for the others, one for the unknown groups."""
    known = {name: hidden for name, hidden in groups.items() if hidden}
    for name, hidden in list(known.items())[:_NAMED]:
        yield f"{name}: {hidden_words(hidden)}"
    if len(known) > _NAMED:
        commits = sum(len(hidden or ()) for hidden in list(known.values())[_NAMED:])
        yield f"{len(known) - _NAMED} more groups: {plural(commits, 'commit')} hidden: no DESCRIBE on Topic"
    unknown = sum(hidden is None for hidden in groups.values())
    if unknown:
        of = f" of {unknown} of {len(groups)} groups" if len(groups) > 1 and unknown < len(groups) else ""
        yield f"{MAY_BE_MISSING}{of}: {REMEDY}"
