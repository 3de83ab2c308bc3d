"""Rows side by side on one broker: start, begin, look, conclude."""

import math
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.situations.clusters import ONE, Cluster, cluster, cluster_of
from tests.situations.conclude import Cell
from tests.situations.copies import Copies
from tests.situations.fleet import FLEET, Stuck, look_at_fleet, make_fleet, stuck
from tests.situations.judge import Judged, judge
from tests.situations.programs.nursery import Nursery
from tests.situations.results import Result, digest, stored
from tests.situations.row import Moment, Row
from tests.situations.schedule import NO_REPEATS, START_GAP_S, Look, Looks, Plays, Repeats, is_late
from tests.situations.stage import Stage

JUDGES: Final = 3
_TICK_S: Final = 0.1
_LOOK_S: Final = 15.0
"""Until a look has been taken, at the most."""
_FLEET_S: Final = 90.0
"""Until the truth of all rows has been read, and the fleet been looked at."""
_REPEATED_AT_ONCE: Final = 6

Tell = Callable[[str], None]


def run(
    rows: Sequence[Row],
    moments: Sequence[Moment],
    directory: Path,
    tell: Tell,
    *,
    repeats: Repeats = NO_REPEATS,
    most_s: float = math.inf,
    with_fleet: bool = False,
    advice: bool = False,
    keep: Callable[[list[Result]], None] = lambda _: None,
) -> list[Result]:
    """What was said of each row at each moment, in the order of the looks.

    Where a look must be taken again its row is played again up to that moment, if there is time for that; of that
    moment the last result that was judged counts.
    After ``most_s`` it ends, and what was not looked at by then has no result.
    ``with_fleet``: the last result is that of FLEET.
    With ``advice`` printed commands are tried, and the results say what became of them.
    ``keep`` gets the results before brokers and members are ended, of which some may be in a bad way.
    """
    until_s = time.time() + most_s
    with (
        _clusters(rows, directory) as clusters,
        Nursery() as nursery,
        _judges(directory) as judges,
        _judges(directory) as readers,
    ):

        def staged(row: Row, name: str) -> Stage:
            its = clusters[cluster_of(row)]
            if row.own_brokers:
                its.all_run()
            stage = Stage(row, name, its.world, nursery, its.feeder, directory / name, its)
            its.make_topics(row, stage.topics)
            return stage

        stages = {row.id: staged(row, row.id) for row in rows}
        if with_fleet:
            make_fleet(clusters[ONE].world)
        addresses = " and ".join(its.world.bootstrap for its in clusters.values())
        tell(f"{len(rows)} rows on {addresses}, logs in {directory}")
        copies = Copies(staged, clusters, readers, tell, until_s) if advice else None
        if copies:
            copies.expect(rows, moments[-1], stored())
        running = _Run(stages, staged, moments, nursery, judges, tell, repeats, until_s, copies, with_fleet=with_fleet)
        try:
            results = running.to_the_end()
            keep(results)
            return results
        finally:
            for stage in stages.values():
                stage.stop()
            if copies:
                copies.stop()


@contextmanager
def _clusters(rows: Sequence[Row], directory: Path) -> Iterator[Mapping[str, Cluster]]:
    """Those that rows live on, by name."""
    with ExitStack() as stack:
        names = sorted({cluster_of(row) for row in rows})
        yield {name: stack.enter_context(cluster(directory / f"brokers-{name}", name)) for name in names}


@contextmanager
def _judges(directory: Path) -> Iterator[ProcessPoolExecutor]:
    """Processes that run kgroup: the command line redirects stdout, so two looks at once need two processes."""
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(JUDGES, context, _own_places, (str(directory),)) as judges:
        yield judges
        judges.shutdown(wait=False, cancel_futures=True)
        for judge_ in set(multiprocessing.active_children()) - set(others):  # what it says now is asked for no more
            judge_.kill()


def _own_places(directory: str) -> None:
    """Configuration and state of each judge are its own; nothing of the user's environment gets in."""
    for name in list(os.environ):
        if name in ("NO_COLOR", "COLUMNS") or (name.startswith("KGROUP_") and name != "KGROUP_CACHE_DIR"):
            del os.environ[name]
    own = Path(directory, f"judge-{os.getpid()}")
    os.environ |= {
        "KGROUP_STATE_DIR": str(own / "state"),
        "KGROUP_CONFIG": str(own / "config.yaml"),
        "COLUMNS": "80",
    }


class _Run:
    """One thread does everything but the looks, which are slow and due in time."""

    def __init__(
        self,
        stages: dict[str, Stage],
        staged: Callable[[Row, str], Stage],
        moments: Sequence[Moment],
        nursery: Nursery,
        judges: ProcessPoolExecutor,
        tell: Tell,
        repeats: Repeats,
        until_s: float,
        copies: Copies | None = None,
        *,
        with_fleet: bool = False,
    ) -> None:
        self._stages, self._staged, self._moments, self._nursery = stages, staged, moments, nursery
        self._judges, self._tell, self._until_s = judges, tell, until_s
        self._copies, self._with_fleet = copies, with_fleet
        self._fleet: Future[tuple[Cell, ...]] | None = None
        self._looks = Looks()
        self._asked: dict[Future[Judged], Look] = {}
        self._plays = {name: Plays(moments, repeats) for name in stages}  # by row
        self._truths = deque(name for name, stage in stages.items() if cluster_of(stage.row) == ONE)  # to be read
        self._stuck: dict[str, Stuck] = {}
        self._row_of = {name: name for name in stages}  # by stage

    def to_the_end(self) -> list[Result]:
        """Start a row each START_GAP_S, begin each after its healthy life, look when looks are due."""
        first = time.time()
        starts = {name: first + n * START_GAP_S for n, name in enumerate(self._stages)}
        started: set[str] = set()
        while (now := time.time()) < self._until_s and not self._is_over():
            ended = self._nursery.ended()
            for name, stage in self._stages.items():
                starts.setdefault(name, now)
                if name not in started and starts[name] <= now:
                    started.add(name)
                    stage.start(starts[name] + stage.row.warm_s)
                if name in started:
                    stage.tick(now, ended)
                if stage.begun_s is None and starts[name] + stage.row.warm_s <= now:
                    stage.begin(now)
                    self._looks.add(name, now, self._plays[self._row_of[name]].to_look_at)
            while len(self._asked) < JUDGES and (look := self._looks.next_due(now)):
                self._ask(look)
            self._collect()
            is_quiet = self._is_quiet()
            self._repeat(is_quiet=is_quiet)
            if self._copies:
                self._copies.tick(now, ended, is_quiet=is_quiet)
            if self._with_fleet and self._fleet is None and self._is_judged():
                self._look_at_fleet()
            time.sleep(_TICK_S)
        return [*self._that_count(), *self._of_fleet()]

    def _is_quiet(self) -> bool:
        """All rows have begun, and nothing is to come of them but their last looks."""
        return all(plays.count > 1 or plays.is_near_its_end() for plays in self._plays.values())

    def _is_judged(self) -> bool:
        return all(plays.are_over() for plays in self._plays.values())

    def _is_over(self) -> bool:
        looked = not self._with_fleet or (self._fleet is not None and self._fleet.done())
        return looked and self._is_judged() and (self._copies is None or self._copies.are_over())

    def _look_at_fleet(self) -> None:
        """Before copies are over, which change some rows themselves at the end; the truth first, a row a tick."""
        if self._truths:
            stage = self._stages[self._truths.popleft()]
            row = stage.row.then(self._moments[-1])
            self._stuck |= stuck(row, stage.state(), fed=stage.is_fed(), run=bool(stage.running()))
            return
        on_one = [self._stages[name] for name in self._plays if cluster_of(self._stages[name].row) == ONE]
        groups = {group: stage.row.then(self._moments[-1]) for stage in on_one for group in stage.groups.values()}
        self._fleet = self._judges.submit(
            look_at_fleet, groups, self._stuck, on_one[0].environment()["KGROUP_BOOTSTRAP_SERVER"]
        )

    def _of_fleet(self) -> list[Result]:
        if self._fleet is None or not self._fleet.done():
            return []
        error = self._fleet.exception()
        cells = () if error else self._fleet.result()
        result = Result(FLEET, self._moments[-1], cells, void=repr(error) if error else "")
        self._tell(result.line())
        return [result]

    def _that_count(self) -> list[Result]:
        results = [result for plays in self._plays.values() for result in plays.that_count()]
        return [self._copies.with_tried(result) if self._copies else result for result in results]

    def _ask(self, look: Look) -> None:
        stage = self._stages[look.stage]
        now_s = time.time()
        if why := stage.holds(now_s, look.moment) or ("late" if is_late(look, now_s) else ""):
            self._keep(look, void=why)
        else:
            asked = self._judges.submit(
                judge, stage.row.then(look.moment), stage.groups, stage.topics, stage.symbols(), stage.environment()
            )
            self._asked[asked] = look

    def _collect(self) -> None:
        for future in [future for future in self._asked if future.done()]:
            look = self._asked.pop(future)
            stage = self._stages[look.stage]
            if error := future.exception():
                self._keep(look, void=repr(error))
                continue
            judged = future.result()
            for verb, page in judged.pages.items():
                (stage.directory / f"{look.moment}-{verb}.json").write_text(page)
            if self._copies:
                self._copies.looked(stage, look.moment, judged.commands)
            late = is_late(look, judged.at_s)
            self._keep(look, judged.cells, void="late" if late else "")

    def _keep(self, look: Look, cells: tuple[Cell, ...] = (), void: str = "") -> None:
        row = self._stages[look.stage].row
        result = Result(row.id, look.moment, cells, digest(row), void)
        plays = self._plays[row.id]
        plays.keep(result)
        self._tell(result.line() + (f" (try {plays.count})" if look.stage != row.id else ""))

    def _repeat(self, *, is_quiet: bool) -> None:
        """Play rows again, a few at once: a machine that was too busy is not helped by more.

        One whose brokers fail waits for its own last look: the brokers are the same ones.
        """
        open_ = sum(plays.count > 1 and not plays.is_near_its_end() for plays in self._plays.values())
        for name, plays in self._plays.items():
            row = self._stages[name].row
            moments = plays.to_repeat(is_quiet=is_quiet and not row.replicas)
            if not moments or open_ >= _REPEATED_AT_ONCE:
                continue
            last_s = _LOOK_S + (_FLEET_S if self._with_fleet else 0)
            if time.time() + row.warm_s + moments[-1].seconds + last_s > self._until_s:
                self._tell(f"     {name}: no time is left to play it again")
                plays.end()
                continue
            again = f"{name}-again{plays.count}"
            try:
                stage = self._staged(row, again)
            except Exception as error:  # one row that cannot be played again must not end the run of all
                self._tell(f"     {name}: cannot be played again: {error!r}")
                plays.end()
                continue
            self._tell(f"     {name}: is played again, until {moments[-1]}")
            open_ += 1
            plays.begin_again(moments)
            self._row_of[again] = name
            self._stages[again] = stage
