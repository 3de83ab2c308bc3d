"""The status of a partition by Burrow's rules, computed at once from the commits in ``__consumer_offsets``.

Burrow samples for minutes before it has a result (linkedin/Burrow, core/internal/evaluator). kgroup takes the commits
from the log; the log ends at their times are known from a few points. Rules that would be unfair with such data have
an additional bound, documented at the rule. The rules in their order:

UNSUBSCRIBED  records are unread, and no member of the running group subscribes to the topic (``measure`` decides this)
NO-READER  the group is Empty and records are unread, since the moment its last member left (``measure`` decides this)
STOP    no commit for longer than the last commits took together, while a record was unread; or for three times their
        usual pause, if all of them have the same offset
REWIND  the committed offset moved backwards, once or with progress, and is still below where it was
OK      the lag is at most the allowed one, now or at one of the last commits
STALL   the group commits, but always the same offset: all the last commits, or at least two for five minutes; or back
        and forth, and nothing past one offset (``back_and_forth``)
WARN    the offset moves, but the lag grew, and never shrank from one commit to the next (Burrow: it never shrank)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from math import inf
from operator import sub

import msgspec

from kgroup.groups import thresholds
from kgroup.groups.lag.evidence import LogEnds
from kgroup.groups.repeated_falls import Writers, repeated_falls, without_hops
from kgroup.model.groups import LoggedCommit
from kgroup.support.durations import format_duration
from kgroup.support.units import plural


class LagStatus(StrEnum):
    """Burrow's status of a partition, or one of ours: UNSUBSCRIBED and NO-READER. ``severity`` orders them.

    It is 0 for OK to 4 for STOP, as in Burrow, 1 for UNSUBSCRIBED and 5 for NO-READER. ``code`` is the status in JSON
    and CSV: ``no-reader``.
    """

    severity: int
    code: str
    meaning: str

    def __new__(cls, text: str, severity: int, meaning: str) -> LagStatus:
        status = str.__new__(cls, text)
        status._value_ = text
        status.severity = severity
        status.code = text.lower()
        status.meaning = meaning
        return status

    OK = "OK", 0, "it keeps up, or commits at the rate that records arrive"
    UNSUBSCRIBED = "UNSUBSCRIBED", 1, "the group runs, and no member subscribes to the topic"
    WARN = "WARN", 1, "the lag grew over the whole window"
    REWIND = "REWIND", 2, "a committed offset moved backwards"
    STALL = "STALL", 3, "the group commits, and the committed offset does not move"
    STOP = "STOP", 4, "the group does not commit any more"
    NO_READER = "NO-READER", 5, "the group has no members"

    @property
    def is_stuck(self) -> bool:
        """Whether the partition is not read at all."""
        return self in (LagStatus.STALL, LagStatus.STOP, LagStatus.NO_READER)


class StatusRules(msgspec.Struct, frozen=True):
    """The bounds of the rules.

    A lag up to ``allowed`` counts as none. The last ``window`` commits count that are at least ``distance_ms`` apart;
    otherwise ten commits within one second would make a pause of two seconds a STOP. A shorter time than
    ``least_span_ms`` is no STOP or STALL; after a single commit it has to be ``lone_ms``. A series of commits of the
    same offset has ended (STOP) after three of its usual pauses without a commit, and at least ``pause_ms``. A REWIND
    is reported for ``rewind_ms``.
    """

    allowed: int = 0
    window: int = thresholds.COMMIT_WINDOW.value
    distance_ms: int = thresholds.COMMIT_DISTANCE.value
    least_span_ms: int = thresholds.LEAST_SILENCE.value
    lone_ms: int = thresholds.LONE_COMMIT.value
    rewind_ms: int = thresholds.REWIND_SHOWN.value
    pause_ms: int = thresholds.SERIES_PAUSE.value


DEFAULT_RULES = StatusRules()
_FEW = thresholds.FEW_COMMITS.value
"""The number of commits that show a regular pattern, and of usual pauses without a commit that show its end."""


WAITS = "what is unread lies behind an open transaction"
"""Why the status is unknown: a read_committed consumer waits, one that reads all records is stuck."""

LEFT_BEFORE = "no member subscribed to its topic before the rebalance that is under way"
"""Why the status is unknown: whether one does now shows when it ends."""


REBALANCES = "a rebalance is under way, and its last commit may be from before a restart"
"""Why the status is unknown: whether it is read shows when the rebalance ends."""


JUST_BACK = "its members came back less than 30s ago"
"""Why the status is unknown: they read nothing while they were away."""

ONE_RECORD = "one record is unread: it fails, or the client commits the last record that it read, not the next one"
"""Why the status is unknown: the next record shows which."""

IN_BATCH = "a batch is planned and not done: the query is in it, or it ended in it"
"""Why the status is unknown: a batch of a streaming query may take long, above all the first after a pause."""
SHARES = "a share group commits nothing that shows whether its members read"
"""Why the status of a share group with members is unknown."""
IN_TURN = "its member reads another partition first, as far as its commits show"
"""Why the status is unknown for a minute: a client hands out what it has fetched of one partition, then of the next."""


class StatusResult(msgspec.Struct, frozen=True, gc=False):
    """A status, and the time since which it holds (None if unknown, and for OK and WARN).

    ``status`` is None if the evidence is not sufficient; ``why`` is the reason. ``at_least`` is whether the status may
    be older: ``since_ms`` is then the start of the scanned range. ``repeats`` is the number of commits of a STALL: of
    one offset, or from ``lowest`` to ``highest`` if it goes back and forth. ``back`` is the number of offsets that a
    REWIND moved backwards, at ``back_at_ms``, except one of ``repeated_falls``; a partition without a reader has them
    too. ``back_by_tool``: no member did it, so that an undo skips nothing that a member gave back. ``caught_up`` is
    whether an OK partition is at the log end, or was at one of its last commits, so that all unread records are newer.
    """

    status: LagStatus | None
    since_ms: int | None = None
    why: str | None = None
    at_least: bool = False
    repeats: int | None = None
    lowest: int | None = None
    highest: int | None = None
    back: int | None = None
    back_at_ms: int | None = None
    back_by_tool: bool = False
    caught_up: bool = False

    @property
    def is_stuck(self) -> bool:
        """Whether the partition is known not to be read at all."""
        return self.status is not None and self.status.is_stuck


CAUGHT_UP = StatusResult(LagStatus.OK, caught_up=True)


class CommitReading(msgspec.Struct, frozen=True, gc=False):
    """The commits of a partition, oldest first, and the other facts that ``evaluate_status`` needs.

    ``lag`` is the present lag. ``waiting_since_ms`` is the timestamp of the first unread record, None: not read.
    ``keeps_up`` is the result of ``rates.keeps_up``. From ``read_since_ms`` on no commit is missing; None: unknown.
    ``group_span_ms`` is the time that the last commits of the whole group took together; None without a pattern.
    """

    lag: int
    commits: Sequence[LoggedCommit]
    ends: LogEnds
    now_ms: int
    waiting_since_ms: int | None = None
    read_since_ms: int | None = None
    keeps_up: bool = False
    group_span_ms: int | None = None


def evaluate_status(reading: CommitReading, rules: StatusRules = DEFAULT_RULES) -> StatusResult:
    """The status of a partition that has a committed offset."""
    if reading.lag <= rules.allowed:
        return CAUGHT_UP
    found = _evaluated(reading, rules)
    is_still = found.status in (LagStatus.STALL, LagStatus.STOP)
    return StatusResult(None, why=ONE_RECORD) if is_still and _may_be_off_by_one(reading) else found


def _may_be_off_by_one(reading: CommitReading) -> bool:
    """Whether the client may commit the last record, not the next one: it has always one unread.

    Its offset was committed first when the unread record was there. Where records come seldom, one that waits for this
    record committed before.
    """
    if reading.lag != 1 or reading.waiting_since_ms is None or not reading.commits:
        return False
    offset = reading.commits[-1].offset
    first = next((at for at, one in enumerate(reversed(reading.commits)) if one.offset != offset), None)
    return first is not None and reading.commits[-first].timestamp_ms >= reading.waiting_since_ms


def _evaluated(reading: CommitReading, rules: StatusRules) -> StatusResult:
    if not reading.commits:
        return _without_commits(reading, rules)
    reading = _without_hops(reading)
    recent = recent_commits(reading.commits, rules)
    if stopped := _stopped(reading, recent, rules):
        return stopped
    went_back = last_rewind(reading.commits)
    retried = None if went_back is None else back_and_forth(reading.commits)
    if retried is None and went_back is not None:
        recent = [c for c in recent if c.log_offset >= reading.commits[went_back].log_offset]
        if rewound := _rewound(reading, went_back, rules):
            return _stalled(reading, recent, rules) or rewound
    if _reached(recent, reading.ends, rules):
        return CAUGHT_UP
    stalled = _stalled(reading, recent, rules) if retried is None else _stalled_between(reading, recent, retried, rules)
    if reading.keeps_up and not (stalled and _waits_long(reading, stalled, rules)):
        return CAUGHT_UP
    if stalled:
        return stalled
    if retried is not None:
        return StatusResult(None, why=f"it commits back and forth between {retried.lowest} and {retried.highest}")
    return _shrinking(reading, recent)


def _without_hops(reading: CommitReading) -> CommitReading:
    """The commits that count: a STALL with hops is one still."""
    if last_rewind(reading.commits) is None or back_and_forth(reading.commits) is not None:
        return reading
    return msgspec.structs.replace(reading, commits=without_hops(reading.commits))


def no_reader(reading: CommitReading, emptied_ms: int | None, rules: StatusRules) -> StatusResult:
    """NO-READER of a partition of an Empty group with unread records.

    It counts from ``emptied_ms``, when the group became Empty, or from the first unread record if that came later. If
    ``emptied_ms`` is unknown, it counts from the last commit, or at least from the start of the scanned range.
    """
    base = emptied_ms
    if base is None and reading.commits:
        base = reading.commits[-1].timestamp_ms
    known = base is not None
    base = reading.read_since_ms if base is None else base
    since = None if base is None else max(base, reading.waiting_since_ms or base)
    at_least = not known and since is not None and since == base
    rewound = _rewound(reading, last_rewind(reading.commits), rules) if len(reading.commits) > 1 else None
    if rewound is None:
        return StatusResult(LagStatus.NO_READER, since, at_least=at_least)
    return StatusResult(
        LagStatus.NO_READER,
        since,
        at_least=at_least,
        back=rewound.back,
        back_at_ms=rewound.back_at_ms,
        back_by_tool=rewound.back_by_tool,
    )


def _rewound(reading: CommitReading, went_back: int | None, rules: StatusRules) -> StatusResult | None:
    """REWIND for ``rewind_ms`` after a commit of a lower offset, unless the group has caught up since.

    Nor is it one once the offset is back where it was: nothing of the move is left to undo. One of ``repeated_falls``
    is not worth an undo: it has no ``back``. It lasts for three of their pauses, unless one client retries and keeps
    up. ``went_back`` is the ``last_rewind``.
    """
    if went_back is None or _reached(reading.commits[went_back:], reading.ends, rules):
        return None
    before, after = reading.commits[went_back - 1 : went_back + 1]
    at_ms = after.timestamp_ms
    if reading.now_ms - at_ms > rules.rewind_ms:
        return None
    is_back = reading.commits[-1].offset >= before.offset
    for falls in repeated_falls(reading.commits):
        if went_back in falls.indices:
            times = [reading.commits[index].timestamp_ms for index in falls.indices[-_FEW:]]
            goes_on = reading.now_ms - at_ms <= _FEW * max(map(sub, times[1:], times))
            harmless = reading.keeps_up and falls.writers is not Writers.TWO
            return None if is_back and (harmless or not goes_on) else StatusResult(LagStatus.REWIND, at_ms)
    if is_back:
        return None
    return StatusResult(
        LagStatus.REWIND, at_ms, back=before.offset - after.offset, back_at_ms=at_ms, back_by_tool=after.by_tool
    )


def recent_commits(commits: Sequence[LoggedCommit], rules: StatusRules = DEFAULT_RULES) -> list[LoggedCommit]:
    """The last commits that count, oldest first: the newest one, and earlier ones at least ``distance_ms`` apart."""
    recent: list[LoggedCommit] = []
    window, distance_ms, later_ms = rules.window, rules.distance_ms, inf
    for commit in reversed(commits):
        if len(recent) == window:
            break
        if later_ms - commit.timestamp_ms >= distance_ms:
            recent.append(commit)
            later_ms = commit.timestamp_ms
    return recent[::-1]


def last_rewind(commits: Sequence[LoggedCommit]) -> int | None:
    """The index of the newest commit with a lower offset than its predecessor; None if there is none."""
    later = inf
    for index, commit in zip(range(len(commits), 0, -1), reversed(commits), strict=True):
        if later < commit.offset:
            return index
        later = commit.offset
    return None


class BackAndForth(msgspec.Struct, frozen=True, gc=False):
    """Commits that fell back again and again from ``highest``, first committed at the index ``first``.

    ``falls`` are the indices of the commits after the last FEW_COMMITS falls, oldest first; ``lowest`` is the lowest
    offset since the first of these.
    """

    first: int
    falls: tuple[int, ...]
    lowest: int
    highest: int


def back_and_forth(commits: Sequence[LoggedCommit]) -> BackAndForth | None:
    """How the last commits go back and forth without progress; None unless they fell FEW_COMMITS times from one offset.

    It is the highest since. A commit of a tool ends the search: what was before is not its retry. Progress are falls to
    ever higher offsets, as of a client that commits both what it has fetched and what it has handled; and offsets that
    have grown since the last fall for much longer than a round took, and than a pause of a broker.
    """
    highest, first, later = -1, 0, inf
    falls: list[int] = []
    for index, commit in zip(range(len(commits) - 1, -1, -1), reversed(commits), strict=True):
        if commit.by_tool or (commit.offset > highest and len(falls) >= _FEW):
            break
        if commit.offset > highest:
            highest, falls = commit.offset, []
        if commit.offset == highest:
            first = index
            if later < highest:
                falls.append(index + 1)
        later = commit.offset
    if len(falls) < _FEW:
        return None
    last = falls[_FEW - 1 :: -1]
    oldest, *_, newest = lows = [commits[index] for index in last]
    if oldest.offset < newest.offset and all(one.offset <= after.offset for one, after in pairwise(lows)):
        return None
    round_ms = max(after.timestamp_ms - one.timestamp_ms for one, after in pairwise(lows))
    growing_ms = commits[-1].timestamp_ms - newest.timestamp_ms
    if commits[-1].offset > newest.offset and growing_ms > max(_FEW * round_ms, thresholds.SERIES_PAUSE.value):
        return None
    return BackAndForth(first, tuple(last), min(commit.offset for commit in commits[last[0] :]), highest)


def usual_pause_ms(commits: Sequence[LoggedCommit]) -> int | None:
    """The median time between two consecutive ``recent_commits``; None if there are fewer than two."""
    if len(commits) < 2:
        return None
    times = [commit.timestamp_ms for commit in recent_commits(commits)]
    pauses = sorted(map(sub, times[1:], times))
    return pauses[len(pauses) // 2] if pauses else None


def _without_commits(reading: CommitReading, rules: StatusRules) -> StatusResult:
    since = reading.read_since_ms
    if since is None:
        return StatusResult(None, why="no commit of it was found in __consumer_offsets")
    waiting = max(since, reading.waiting_since_ms or since)
    if reading.now_ms - waiting > _lone_ms(reading, rules):
        return StatusResult(LagStatus.STOP, waiting, at_least=waiting == since)
    return StatusResult(None, why="no commit in the short time that was read")


def _stopped(reading: CommitReading, recent: Sequence[LoggedCommit], rules: StatusRules) -> StatusResult | None:
    """STOP after a long time without a commit, OK or unknown after a single commit; None if no rule here applies.

    The time counts from the first unread record: an idle consumer at the log end need not commit. Burrow reports STOP
    right after a single commit. kgroup waits for ``lone_ms``, because compaction may have removed the other commits.
    Several commits within a moment, or the group's other partitions, show earlier how the consumer commits.
    """
    last = recent[-1]
    since = max(last.timestamp_ms, reading.waiting_since_ms or last.timestamp_ms)
    silence_ms = reading.now_ms - since
    if len(recent) == 1 and len(reading.commits) < _FEW:
        if silence_ms > _lone_ms(reading, rules):
            return StatusResult(LagStatus.STOP, since)
        came_later = reading.waiting_since_ms is not None and reading.waiting_since_ms > last.timestamp_ms
        if came_later and silence_ms <= rules.least_span_ms:
            return CAUGHT_UP
        return StatusResult(None, why="only one commit was found, at least two are needed")
    span_ms = last.timestamp_ms - recent[0].timestamp_ms
    return StatusResult(LagStatus.STOP, since) if silence_ms > max(span_ms, rules.least_span_ms) else None


def _lone_ms(reading: CommitReading, rules: StatusRules) -> int:
    """How long a partition with at most one commit may be silent: as its group's other partitions, if they commit."""
    span_ms = reading.group_span_ms
    return rules.lone_ms if span_ms is None else min(rules.lone_ms, max(span_ms, rules.least_span_ms))


def has_lone_commit(commits: Sequence[LoggedCommit], rules: StatusRules = DEFAULT_RULES) -> bool:
    """Whether at most one of the commits counts: they show no pattern."""
    return not commits or commits[-1].timestamp_ms - commits[0].timestamp_ms < rules.distance_ms


def group_span_ms(commits: Iterable[Sequence[LoggedCommit]], rules: StatusRules = DEFAULT_RULES) -> int | None:
    """The time that the last commits of a group took together, whatever their partitions; None for fewer than three.

    ``commits`` are those of each partition, oldest first. A reset or a release shows nothing of the consumer.
    """
    last = [commit for each in commits for commit in each[-rules.window :] if not commit.by_tool]
    recent = recent_commits(sorted(last, key=lambda commit: commit.timestamp_ms), rules)
    return None if len(recent) < _FEW else recent[-1].timestamp_ms - recent[0].timestamp_ms


def _reached(commits: Sequence[LoggedCommit], ends: LogEnds, rules: StatusRules) -> bool:
    for commit in commits:
        lag = ends.lag_at(commit.timestamp_ms, commit.offset)
        if lag is not None and lag <= rules.allowed:
            return True
    return False


def _stalled(reading: CommitReading, recent: Sequence[LoggedCommit], rules: StatusRules) -> StatusResult | None:
    offset = recent[-1].offset
    same = []
    for commit in reversed(reading.commits):
        if commit.offset != offset:
            break
        same.append(commit)
    first_ms = same[-1].timestamp_ms
    since = max(first_ms, reading.waiting_since_ms or first_ms)
    series = len(recent) >= _FEW and all(commit.offset == offset for commit in recent)
    # Fewer commits of one offset show it too, once a lone commit would. So does a single unread record: who commits
    # the offset of the last record, instead of the next one, has always one.
    short = series and reading.lag > 1
    if reading.now_ms - since < (rules.least_span_ms if short else rules.lone_ms) or len(same) < 2:
        return None
    if ended := _ended(reading, recent, rules):
        return ended
    # No older commit was read, so the stall may have begun earlier.
    at_least = len(same) == len(reading.commits) and since == first_ms
    return StatusResult(LagStatus.STALL, since, at_least=at_least, repeats=len(same))


def _ended(reading: CommitReading, recent: Sequence[LoggedCommit], rules: StatusRules) -> StatusResult | None:
    """STOP if the commits of a STALL have ended. The offset did not move before either, so a short silence will do."""
    last_ms = recent[-1].timestamp_ms
    if reading.now_ms - last_ms > max(_FEW * (usual_pause_ms(recent) or 0), rules.pause_ms):
        return StatusResult(LagStatus.STOP, last_ms)
    return None


def _stalled_between(
    reading: CommitReading, recent: Sequence[LoggedCommit], retried: BackAndForth, rules: StatusRules
) -> StatusResult | None:
    """STALL of commits that go back and forth; one that falls back each time that it has read all is not stuck."""
    first_ms = reading.commits[retried.first].timestamp_ms
    since = max(first_ms, reading.waiting_since_ms or first_ms)
    fallen_from = [reading.commits[index - 1] for index in retried.falls]
    if reading.now_ms - since < rules.least_span_ms or _reached(fallen_from, reading.ends, rules):
        return None
    return _ended(reading, recent, rules) or StatusResult(
        LagStatus.STALL,
        since,
        at_least=retried.first == 0 and since == first_ms,
        repeats=len(reading.commits) - retried.first,
        lowest=retried.lowest,
        highest=retried.highest,
    )


def _waits_long(reading: CommitReading, stalled: StatusResult, rules: StatusRules) -> bool:
    """Whether a record is unread for so long, and commits of its offset came since: their interval explains no lag."""
    return (
        reading.waiting_since_ms is not None
        and stalled.since_ms is not None
        and reading.now_ms - stalled.since_ms >= rules.lone_ms
    )


def _shrinking(reading: CommitReading, recent: Sequence[LoggedCommit]) -> StatusResult:
    lags = [lag for c in recent if (lag := reading.ends.lag_at(c.timestamp_ms, c.offset)) is not None]
    if len(recent) < _FEW:
        return StatusResult(None, why=f"{plural(len(recent), 'commit')} found, at least three are needed")
    if len(lags) < _FEW:
        return StatusResult(None, why="the log end at the time of its commits is unknown")
    shrinks = any(later < earlier for earlier, later in pairwise(lags))
    read = recent[-1].offset - recent[0].offset
    # Between two known log ends the lag is estimated. One that does not grow may be a delay on purpose.
    flat = read > 0 and lags[-1] - lags[0] <= max(1, read * thresholds.EVEN_RATES.value // 100)
    return StatusResult(LagStatus.OK if shrinks or flat else LagStatus.WARN)


def status_words(result: StatusResult, now_ms: int) -> str | None:
    """``OK``, ``STOP 38m``, ``STALL over 22m``; None if the status is unknown."""
    if result.status is None:
        return None
    if result.since_ms is None:
        return str(result.status)
    age = format_duration(max(0, now_ms - result.since_ms) // 1000)
    return f"{result.status} {'over ' if result.at_least else ''}{age}"
