"""Rows side by side on one broker: start, begin, look, conclude."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.helpers.kafka_world import KafkaWorld
from tests.situations.clusters import one_broker
from tests.situations.judge import Judged, judge
from tests.situations.programs.feeder import Feeder
from tests.situations.programs.nursery import Nursery
from tests.situations.results import Result
from tests.situations.row import Moment, Row
from tests.situations.schedule import START_GAP_S, Look, Looks, is_late
from tests.situations.stage import Stage

JUDGES: Final = 2
_TICK_S: Final = 0.1

Tell = Callable[[str], None]


def run(rows: Sequence[Row], moments: Sequence[Moment], directory: Path, tell: Tell) -> list[Result]:
    """What was said of each row at each moment, in the order of the looks."""
    with (
        one_broker(directory / "broker") as bootstrap,
        KafkaWorld(bootstrap) as world,
        Nursery() as nursery,
        Feeder(bootstrap) as feeder,
        _judges(bootstrap, directory) as judges,
    ):
        stages = {row.id: Stage(row, row.id, world, nursery, feeder, directory / row.id) for row in rows}
        for stage in stages.values():
            for name, partitions in stage.row.topics.items():
                world.topic(stage.topics[name], partitions, stage.row.topic_settings)
        tell(f"{len(rows)} rows on {bootstrap}, logs in {directory}")
        try:
            return _Run(stages, moments, nursery, judges, tell).to_the_end()
        finally:
            for stage in stages.values():
                stage.stop()


@contextmanager
def _judges(bootstrap: str, directory: Path) -> Iterator[ProcessPoolExecutor]:
    """Processes that run kgroup: the command line redirects stdout, so two looks at once need two processes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(JUDGES, context, _own_places, (bootstrap, str(directory))) as judges:
        yield judges
        judges.shutdown(wait=False, cancel_futures=True)


def _own_places(bootstrap: str, directory: str) -> None:
    """Configuration and state of each judge are its own; nothing of the user's environment gets in."""
    for name in list(os.environ):
        if name in ("NO_COLOR", "COLUMNS") or (name.startswith("KGROUP_") and name != "KGROUP_CACHE_DIR"):
            del os.environ[name]
    own = Path(directory, f"judge-{os.getpid()}")
    os.environ |= {
        "KGROUP_STATE_DIR": str(own / "state"),
        "KGROUP_CONFIG": str(own / "config.yaml"),
        "KGROUP_BOOTSTRAP_SERVER": bootstrap,
        "COLUMNS": "80",
    }


class _Run:
    """One thread does everything but the looks, which are slow and due in time."""

    def __init__(
        self,
        stages: Mapping[str, Stage],
        moments: Sequence[Moment],
        nursery: Nursery,
        judges: ProcessPoolExecutor,
        tell: Tell,
    ) -> None:
        self._stages, self._moments, self._nursery, self._judges, self._tell = stages, moments, nursery, judges, tell
        self._looks = Looks()
        self._asked: dict[Future[Judged], Look] = {}
        self._results: list[Result] = []

    def to_the_end(self) -> list[Result]:
        """Start a row each START_GAP_S, begin each after its healthy life, look when looks are due."""
        first = time.time()
        starts = {row_id: first + n * START_GAP_S for n, row_id in enumerate(self._stages)}
        started: set[str] = set()
        while len(self._results) < len(self._stages) * len(self._moments):
            now, ended = time.time(), self._nursery.ended()
            for row_id, stage in self._stages.items():
                if row_id not in started and starts[row_id] <= now:
                    started.add(row_id)
                    stage.start()
                if row_id in started:
                    stage.tick(now, ended)
                if stage.begun_s is None and starts[row_id] + stage.row.warm_s <= now:
                    stage.begin(now)
                    self._looks.add(row_id, now, self._moments)
            while look := self._looks.next_due(now):
                self._ask(look)
            self._collect()
            time.sleep(_TICK_S)
        return self._results

    def _ask(self, look: Look) -> None:
        stage = self._stages[look.row]
        if why := stage.holds():
            self._keep(Result(look.row, look.moment, void=why))
        else:
            asked = self._judges.submit(judge, stage.row, stage.groups, stage.topics, stage.symbols())
            self._asked[asked] = look

    def _collect(self) -> None:
        for future in [future for future in self._asked if future.done()]:
            look = self._asked.pop(future)
            if error := future.exception():
                self._keep(Result(look.row, look.moment, void=repr(error)))
                continue
            judged = future.result()
            for verb, page in judged.pages.items():
                (self._stages[look.row].directory / f"{look.moment}-{verb}.json").write_text(page)
            late = is_late(look, judged.at_s)
            self._keep(Result(look.row, look.moment, void="late" if late else "", cells=judged.cells))

    def _keep(self, result: Result) -> None:
        self._results.append(result)
        self._tell(result.line())
