"""Commands that were printed, executed as a reader would: those that only read on the row itself, others in a copy.

A copy is the same row begun again under other names, side by side with the rows that run. It prints commands of its
own; the one of the wanted shape is executed as it is printed there, and then the truth is checked again.
"""

import math
import os
import shlex
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import chdir
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final, TypeVar
from unittest.mock import patch

import msgspec

from tests.helpers.command_line import CommandLine
from tests.helpers.command_line import Result as Answer
from tests.situations.advice import PLANNED, Setting, alike, can_run, changes, setting
from tests.situations.clusters import Cluster, cluster_of
from tests.situations.harm import Harm, Outcome, State, beyond, harm, not_calmer, standing, useless
from tests.situations.judge import commands_of
from tests.situations.results import Result, Tried
from tests.situations.row import Action, Moment, Row
from tests.situations.schedule import START_GAP_S
from tests.situations.stage import Stage

MOST: Final = 30
"""Copies that live at once."""

EFFECT_S: Final = 45
"""From a command until the truth is read again."""

_CLOSES_WITHIN_S: Final = 10
_PRINTED_WITHIN_S: Final = 60
_BETWEEN_LOOKS_S: Final = 5
_CONTROL_S: Final = EFFECT_S
"""Before a command, so that what a group does by itself is known of as long a time."""

_TRIED_WITHIN_S: Final = _PRINTED_WITHIN_S + _CONTROL_S + 2 * (EFFECT_S + _CLOSES_WITHIN_S)
"""From the moment that a copy is begun for to its end: two commands, as a skip and a restart."""

_BETWEEN_RESTARTS_S: Final = 6
_NOT_YET: Final = 9
_ANSWERED: Final = frozenset({0, 8, _NOT_YET})
_THEN_START: Final = frozenset({"reset", "undo"})
"""Of groups that are empty: what they print when they are done says to start the consumers."""

_WORDS: Final = frozenset({"restart", "start"})
_PATIENCE: Final = ("--within", "10s")
_BYSTANDER: Final = "bystander"

T = TypeVar("T")
_What = tuple[Outcome, str]
Waits = Generator[None, None, T]
"""What takes time: each tick of the run takes it on by one step."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A shape that a verb printed first at this moment; without verb: what helps by its row, and is done unasked."""

    row: Row
    moment: Moment
    verb: str
    command: str


@dataclass(frozen=True, slots=True)
class _Announced:
    """What a change says that it does: offsets that the group will not read, and those that it reads again."""

    skipped: int = 0
    repeated: int = 0


class Copies:
    """What is tried of the rows of a run."""

    def __init__(
        self,
        staged: Callable[[Row, str], Stage],
        clusters: Mapping[str, Cluster],
        readers: Executor,
        tell: Callable[[str], None],
        until_s: float = math.inf,
    ) -> None:
        self._staged, self._clusters, self._readers, self._tell = staged, clusters, readers, tell
        self._until_s = until_s
        self._last: Moment | None = None
        self._wanted: list[Advice] = []
        self._due: deque[Advice] = deque()
        self._reads: deque[Waits[None]] = deque()  # one after the other: looks have due times, these have not
        self._playing: dict[str, tuple[Stage, Waits[None]]] = {}
        self._originals: list[Waits[None]] = []
        self._numbers = count(1)
        self._tried: dict[tuple[str, Moment], list[Tried]] = {}
        self._now = self._next_start = 0.0
        for its in clusters.values():
            its.world.produce(its.world.topic(_BYSTANDER), 2)
            its.world.commit(_BYSTANDER, {(_BYSTANDER, 0): 1})

    def expect(self, rows: Iterable[Row], last: Moment, earlier: Sequence[Result]) -> None:
        """What earlier runs printed of rows, and what helps in words, is tried without waiting for a look at the row.

        What takes longest comes first.
        """
        self._last = last
        table = {row.id: row for row in rows}
        wanted = []
        for row in table.values():
            moments = {row.named_by, *([row.later.since] if row.later else [])}
            for at in sorted({min(moment, last, key=_seconds) for moment in moments}, key=_seconds):
                wanted += [Advice(row, at, "", command) for command in row.then(at).helps if is_done_unasked(command)]
        for result in earlier:
            if result.row in table and result.moment.seconds <= last.seconds:
                for cell in result.cells:
                    for command in cell.commands:
                        if is_tried_in_a_copy(command, table[result.row]):
                            wanted.append(Advice(table[result.row], result.moment, cell.verb, command))
        self._due += sorted(filter(self._is_new, wanted), key=lambda advice: -advice.moment.seconds)

    def looked(self, stage: Stage, moment: Moment, commands: Mapping[str, Mapping[str, str]]) -> None:
        """Try what was printed of a row, by verb and shape, if it was not printed before."""
        printed = [
            (Advice(stage.row, moment, verb, command), text)
            for verb, texts in commands.items()
            for command, text in texts.items()
            if can_run(text) or is_tried_in_a_copy(command, stage.row)
        ]
        new = [(advice, text) for advice, text in printed if self._is_new(advice)]
        changing = [advice for advice, _ in new if is_tried_in_a_copy(advice.command, stage.row)]
        reads = [
            self._try(advice, self._read(stage, text))
            for advice, text in new
            if not is_tried_in_a_copy(advice.command, stage.row)
        ]
        self._reads += reads
        if changing and moment is self._last:  # nobody looks at it any more
            first = changing.pop(0)
            self._originals.append(self._try(first, self._follow_after(reads, stage, first)))
        self._due += changing

    def tick(self, now_s: float, ended: Mapping[str, int], *, is_quiet: bool) -> None:
        """Take each copy on by one step, and one row's commands that read.

        Copies begin when it `is_quiet`, so that all looks at rows are in time; those that live up to the last look
        begin with the rows.
        """
        self._now = now_s
        may_begin = self._due and (is_quiet or self._due[0].moment is self._last)
        if may_begin and len(self._playing) < MOST and self._next_start <= now_s:
            self._next_start = now_s + START_GAP_S
            self._begin(self._due.popleft())
        for name, (stage, play) in list(self._playing.items()):
            stage.tick(now_s, ended)
            if _is_over(play):
                stage.stop()
                for topic in stage.topics.values():
                    self._clusters[cluster_of(stage.row)].feeder.quiet(topic)
                del self._playing[name]
        if self._reads and _is_over(self._reads[0]):
            self._reads.popleft()
        self._originals = [play for play in self._originals if not _is_over(play)]

    def are_over(self) -> bool:
        """Whether nothing is left to try."""
        return not (self._due or self._playing or self._reads or self._originals)

    def stop(self) -> None:
        """No member of a copy lives on."""
        for stage, _ in self._playing.values():
            stage.stop()

    def with_tried(self, result: Result) -> Result:
        """A result, with what was tried of it."""
        return msgspec.structs.replace(result, tried=tuple(self._tried.get((result.row, result.moment), ())))

    def _is_new(self, advice: Advice) -> bool:
        """Whether nothing like it was seen of the row; it was from now on."""
        known = any(each.row is advice.row and alike(each.command, advice.command) for each in self._wanted)
        if not known:
            self._wanted.append(advice)
        return not known

    def _try(self, advice: Advice, steps: Waits[_What]) -> Waits[None]:
        """Keep what became of an advice; one that cannot be tried ends no run of all."""
        try:
            outcome, why = yield from steps
        except Exception as error:
            outcome, why = Outcome.NOT_TRIED, repr(error)
        self._keep(advice, outcome, why)

    def _keep(self, advice: Advice, outcome: Outcome, why: str) -> None:
        tried = Tried(advice.command, outcome, why)
        self._tried.setdefault((advice.row.id, advice.moment), []).append(tried)
        self._tell(f"{advice.moment:>3}  {advice.row.id:<22} {tried.line()}")

    def _begin(self, advice: Advice) -> None:
        if self._now + advice.row.warm_s + advice.moment.seconds + _TRIED_WITHIN_S > self._until_s:
            self._keep(advice, Outcome.NOT_TRIED, "no time is left for a copy; the next run tries it earlier")
            return
        name = f"{advice.row.id}-copy{next(self._numbers)}"
        try:
            stage = self._staged(advice.row, name)
        except Exception as error:  # the brokers of its row may be dead
            self._keep(advice, Outcome.NOT_TRIED, repr(error))
        else:
            self._playing[name] = stage, self._try(advice, self._live(stage, advice))

    def _live(self, stage: Stage, advice: Advice) -> Waits[_What]:
        """As the row does, until the moment; then do as it is advised."""
        stage.start(self._now + advice.row.warm_s)
        yield from self._wait(advice.row.warm_s)
        stage.begin(self._now)
        yield from self._wait(advice.moment.seconds)
        if why := stage.holds(self._now, advice.moment):
            return Outcome.NOT_TRIED, why
        return (yield from self._follow(stage, advice))

    def _follow_after(self, reads: Sequence[Waits[None]], stage: Stage, advice: Advice) -> Waits[_What]:
        while any(read in self._reads for read in reads):
            yield
        return (yield from self._follow(stage, advice))

    def _follow(self, stage: Stage, advice: Advice) -> Waits[_What]:
        """Execute it, and see what became of the group, now and when what really helps is done as well."""
        text = (yield from self._printed(stage, advice)) if advice.verb else _unasked(stage, advice)
        if not stage.can_be_read():
            return Outcome.NOT_TRIED, "a broker is down"
        if advice.verb and not text:
            return Outcome.NOT_TRIED, f"{advice.verb} does not print it of the copy"
        own = yield from self._own_harm(stage)
        before = self._see(stage)
        if text and (printed := setting(text)):
            return (yield from self._set(stage, printed, before, own))
        if text:
            refused, started, announced = yield from self._execute(stage, text)
            if refused:
                return Outcome.REFUSED, refused
            if lost := _unsaved(stage.directory, text, announced.skipped):
                return Outcome.HARMED, lost
        else:
            started, announced = before, _Announced()
            yield from self._do_words(stage, advice.command)
        yield from self._wait(EFFECT_S)
        after = self._see(stage)
        found = _caused(started, after, own, announced.repeated)
        if found:
            return Outcome.HARMED, _in_words(found)
        for command in _words_that_help(advice):
            yield from self._do_words(stage, command)
            yield from self._wait(EFFECT_S)
            if found := _caused(started, self._see(stage), own, announced.repeated):
                return Outcome.HARMED, f"{_in_words(found)}, after `{command}`"
        why = useless(before, after)
        return (Outcome.USELESS, why) if why else (Outcome.HELPED, "")

    def _set(self, stage: Stage, printed: Setting, before: State, own: Sequence[Harm]) -> Waits[_What]:
        """Start one member after the other with a setting that was printed, and see whether the truth is better."""
        if printed.of_group:
            stage.change_group(printed.name, printed.value)
        else:
            for name in stage.running():
                stage.change_settings(name, printed.name, printed.value)
                yield from self._end(stage, [name])
                self._start(stage, [name])
                yield from self._wait(_BETWEEN_RESTARTS_S)
        yield from self._wait(EFFECT_S)
        after = self._see(stage)
        if found := _caused(before, after, own):
            return Outcome.HARMED, _in_words(found)
        stands = any(standing(before, group) for group in before.groups)
        why = useless(before, after) if stands else not_calmer(before, after, 1000 * EFFECT_S)
        return (Outcome.USELESS, why) if why else (Outcome.HELPED, "")

    def _own_harm(self, stage: Stage) -> Waits[list[Harm]]:
        """What goes wrong with the group by itself, as a crash loop reads records again that it has not committed."""
        before = self._see(stage)
        yield from self._wait(_CONTROL_S)
        return harm(before, self._see(stage))

    def _do_words(self, stage: Stage, command: str) -> Waits[None]:
        """`restart` or `start` all, or those of a program."""
        word, _, name = command.partition(" ")
        names = stage.wanted(name)
        if word == "restart":
            yield from self._end(stage, names)
        self._start(stage, names)

    def _printed(self, stage: Stage, advice: Advice) -> Waits[str]:
        """The copy's own command of this shape, as soon as it is printed; "" if it is not within a minute."""
        group, until = stage.groups[advice.row.programs[0].group], self._now + _PRINTED_WITHIN_S
        while self._now < until:
            asked = self._readers.submit(
                commands_of, advice.verb, group, stage.topics, stage.symbols(), stage.environment()
            )
            for command, text in (yield from self._result(asked)).items():
                if alike(command, advice.command):
                    return text
            yield from self._wait(_BETWEEN_LOOKS_S)
        return ""

    def _execute(self, stage: Stage, text: str) -> Waits[tuple[str, State, _Announced]]:
        """Why kgroup refuses; the truth before it acts, and what it announces."""
        plan = yield from self._run(stage, text, "-o", "json")
        if plan.exit_code not in _ANSWERED:
            return _why(plan), self._see(stage), _Announced()
        before = self._see(stage)
        done = plan if plan.exit_code == _NOT_YET else (yield from self._run(stage, text, "--execute", "-o", "json"))
        if done.exit_code == _NOT_YET:  # as its page says: stop the application, and start it afterwards
            names = stage.wanted()
            yield from self._end(stage, names)
            before = self._see(stage)
            done = yield from self._run(stage, text, "--wait-empty", "--execute", "-o", "json")
            self._start(stage, names)
        elif text.split()[1] in _THEN_START:
            self._start(stage, stage.wanted())
        return _why(done) if done.exit_code else "", before, _announced(done)

    def _read(self, stage: Stage, text: str) -> Waits[_What]:
        """Run a command that reads, or plans: it answers, and changes nothing."""
        if not stage.can_be_read():
            return Outcome.NOT_TRIED, "a broker is down"
        before = self._see(stage)
        answer = yield from self._run(stage, text, *(_PATIENCE if text.startswith("kgroup wait ") else ()))
        if answer.exit_code not in _ANSWERED:
            return Outcome.REFUSED, _why(answer)
        # What reads evicts no member; those of a crash loop go by themselves.
        found = [each for each in harm(before, self._see(stage)) if each.kind != "evicted"]
        if found:
            found = beyond(found, (yield from self._own_harm(stage)))
        return (Outcome.HARMED, _in_words(found)) if found else (Outcome.READ, "")

    def _end(self, stage: Stage, names: Sequence[str]) -> Waits[None]:
        """Members end by SIGTERM, and those that hang by force."""
        for do, within_s in (("end", _CLOSES_WITHIN_S), ("kill", _CLOSES_WITHIN_S)):
            for name in names:
                stage.do(Action(0, do, name), self._now)
            until = self._now + within_s
            while self._now < until and stage.living().keys() & set(names):
                yield

    def _start(self, stage: Stage, names: Sequence[str]) -> None:
        for name in names:
            stage.do(Action(0, "start", name), self._now)

    def _run(self, stage: Stage, text: str, *options: str) -> Waits[Answer]:
        words = [*shlex.split(text)[1:], *options]
        answer = yield from self._result(
            self._readers.submit(_kgroup, str(stage.directory), stage.environment(), words)
        )
        with (stage.directory / "commands.txt").open("a") as file:
            file.write(f"$ kgroup {shlex.join(words)}\n{answer.stdout}{answer.stderr}exit {answer.exit_code}\n\n")
        return answer

    def _result(self, future: Future[T]) -> Waits[T]:
        while not future.done():
            yield
        return future.result()

    def _wait(self, seconds: float) -> Waits[None]:
        until = self._now + seconds
        while self._now < until:
            yield

    def _see(self, stage: Stage) -> State:
        return replace(stage.state(), others=self._clusters[cluster_of(stage.row)].world.offsets(_BYSTANDER))


def is_tried_in_a_copy(command: str, row: Row) -> bool:
    """What changes something, but for plans; and settings, of groups in which something can be better."""
    if row.own_brokers:  # a copy would start the brokers that the row has killed
        return False
    if setting(command):
        return not row.healthy
    return changes(command) and command.split()[0] not in PLANNED


def is_done_unasked(command: str) -> bool:
    """Of what helps: words, and the eviction of a member that is named."""
    return command.split()[0] in _WORDS or command.startswith("evict --")


def _unasked(stage: Stage, advice: Advice) -> str:
    """The command line that an advice is, which was not printed; "" of words."""
    verb, *options = advice.command.split()
    return "" if verb in _WORDS else shlex.join(["kgroup", verb, stage.groups[advice.row.programs[0].group], *options])


def _words_that_help(advice: Advice) -> list[str]:
    """What is done after a command that was printed, since it helps by its row."""
    helps = advice.row.then(advice.moment).helps if advice.verb else ()
    return [command for command in helps if command.split()[0] in _WORDS]


def _seconds(moment: Moment) -> int:
    return moment.seconds


def _caused(before: State, after: State, own: Sequence[Harm], said_repeated: int = 0) -> list[Harm]:
    """The harm that a group does not do by itself, as it did in _CONTROL_S before."""
    return beyond(harm(before, after, said_repeated), own, (after.at_ms - before.at_ms) / 1000 / _CONTROL_S)


def _in_words(found: Sequence[Harm]) -> str:
    return "; ".join(map(str, found))


def _is_over(play: Waits[None]) -> bool:
    return next(play, StopIteration) is StopIteration


def _kgroup(directory: str, environment: Mapping[str, str], words: Sequence[str]) -> Answer:
    """Run the command line, in a reader's process; files that it writes are the stage's."""
    with chdir(directory), patch.dict(os.environ, environment):
        return CommandLine()(*words, exit_code=None)


def _why(answer: Answer) -> str:
    """The message of a refusal, without what follows it."""
    return f"exit {answer.exit_code}: {answer.stderr.strip().partition(chr(10))[0]}"


def _announced(done: Answer) -> _Announced:
    rows = done.data if done.stdout else []
    return _Announced(*(sum(row.get(count) or 0 for row in rows) for count in ("skipped_count", "repeated_count")))


def _unsaved(directory: Path, text: str, skipped: int) -> str:
    """That skipped records are not in the file that the command names; "" if they are."""
    words = shlex.split(text)
    if "--save-skipped" not in words:
        return ""
    file = directory / words[words.index("--save-skipped") + 1]
    saved = len(file.read_text().splitlines()) if file.exists() else 0
    return f"{saved} of {skipped} skipped records are saved" if saved != skipped else ""
