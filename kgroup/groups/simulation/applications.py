"""What other instances do to a Streams application: the tasks that move, and the state that is read for it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import count as counter

import msgspec

from kgroup.groups.assignors.tasks import TaskMember, TaskTopology, by_broker, by_clients
from kgroup.groups.simulation.member_ids import made_up_uuid, numbers_apart
from kgroup.groups.simulation.model import GroupChange
from kgroup.groups.simulation.scenarios import RUNS, CountRange
from kgroup.groups.simulation.subject import TOO_FEW_MEMBERS
from kgroup.model.groups import Group
from kgroup.model.streams_group import StreamsTask
from kgroup.support.errors import NotFound, Refused, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.units import plural

INSTANCES_ONLY = refusal_code(
    "instances-only",
    "simulate",
    "Of a Streams application only --add and --remove are simulated, with its own assignor.",
    "Use --add or --remove alone.",
)
TASKS_ELSEWHERE = refusal_code(
    "tasks-elsewhere",
    "simulate",
    "The tasks of a classic Streams application are not where the default assignor of its clients puts them.",
    "Wait until their states are copied. If its clients have another assignor, kgroup does not know it.",
    not_yet=True,
)

_THREAD = "-StreamThread-"


class Instance(msgspec.Struct, frozen=True):
    """A process of an application, with its number of threads and the tasks that it runs, and whose state it keeps."""

    threads: int
    active: frozenset[StreamsTask]
    standby: frozenset[StreamsTask]

    @property
    def tasks(self) -> frozenset[StreamsTask]:
        return self.active | self.standby


Instances = Mapping[str, Instance]
"""By process id, a Uuid of the client, which its state directory keeps."""


class Application(msgspec.Struct, frozen=True):
    """A Streams application that is not rebalancing. ``classic``: one of its clients assigns its tasks, not the broker.

    ``sizes`` are bytes of the changelogs of tasks with state, None if unknown: what is read of them at most. Where
    ``size_is_bound``, they are those of all changelogs that may be the task's. ``names`` are its instances'.
    """

    group: str
    classic: bool
    members: tuple[TaskMember, ...]
    topology: TaskTopology
    sizes: Mapping[StreamsTask, int | None]
    names: Mapping[str, str]
    size_is_bound: bool = False

    @property
    def assignor(self) -> str:
        return "HighAvailabilityTaskAssignor" if self.classic else "sticky"

    @property
    def instances(self) -> Instances:
        return _instances(self.members)

    def assign(self, members: Sequence[TaskMember]) -> tuple[TaskMember, ...]:
        """The members with the tasks that they get."""
        if not self.classic:
            return by_broker(members, self.topology)
        tasks = by_clients(Counter(member.process_id for member in members), self.topology)
        nothing: tuple[set[StreamsTask], set[StreamsTask]] = set(), set()
        # All tasks of a process to one of its threads: they share its state.
        each = ((member, tasks.pop(member.process_id, nothing)) for member in members)
        return tuple(
            msgspec.structs.replace(member, active=tuple(active), standby=tuple(standby))
            for member, (active, standby) in each
        )


class TaskStep(msgspec.Struct, frozen=True):
    """What happens when instances leave, or join.

    ``moved`` tasks run on another instance. ``needless`` are those among them without which the others were even too,
    the ones with the least state. ``reads`` are process ids with the tasks whose state that instance does not have yet.
    ``stopped`` tasks do not run until it is read.
    """

    moved: frozenset[StreamsTask]
    needless: tuple[StreamsTask, ...]
    reads: tuple[tuple[str, StreamsTask], ...]
    stopped: frozenset[StreamsTask]


class ApplicationRun(msgspec.Struct, frozen=True):
    """An application before and after a change, and what happens in between."""

    before: Instances
    after: Instances
    steps: tuple[TaskStep, ...]

    @property
    def moved(self) -> int:
        return sum(len(step.moved) for step in self.steps)

    @property
    def needless(self) -> int:
        return sum(len(step.needless) for step in self.steps)

    @property
    def stopped(self) -> int:
        return sum(len(step.stopped) for step in self.steps)

    @property
    def reads(self) -> Iterator[tuple[str, StreamsTask]]:
        for step in self.steps:
            yield from step.reads


class ApplicationReport(msgspec.Struct, frozen=True):
    """An application, the change, and the result of each run; runs differ in the ids of added instances.

    ``bytes_per_s`` is the rate at which an instance reads state; None: not given.
    """

    application: Application
    group: Group
    change: GroupChange
    runs: tuple[ApplicationRun, ...]
    bytes_per_s: int | None = None

    @property
    def first(self) -> ApplicationRun:
        """The run whose instances are shown."""
        return self.runs[0]

    def span(self, of: Callable[[ApplicationRun], int]) -> CountRange:
        numbers = [of(run) for run in self.runs]
        return CountRange(min(numbers), max(numbers))

    def bytes_of(self, tasks: Sequence[StreamsTask]) -> int | None:
        """What their changelogs hold; None if that of one is unknown."""
        sizes = [self.application.sizes.get(task) for task in tasks]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    @property
    def bytes_read(self) -> CountRange | None:
        """Bytes that all instances read; None if a size is unknown."""
        return self._bytes(lambda run: [task for _, task in run.reads])

    @property
    def bytes_read_needlessly(self) -> CountRange | None:
        """Bytes among them of tasks that moved without need, at least."""
        return self._bytes(lambda run: [task for step in run.steps for task in _needless_reads(step)])

    def _bytes(self, of: Callable[[ApplicationRun], Sequence[StreamsTask]]) -> CountRange | None:
        sizes = [self.bytes_of(of(run)) for run in self.runs]
        known = [size for size in sizes if size is not None]
        return CountRange(min(known), max(known)) if len(known) == len(sizes) else None

    def read_by(self, process_id: str) -> int | None:
        """Bytes that an instance reads in the first run; None if a size is unknown."""
        return self.bytes_of([task for name, task in self.first.reads if name == process_id])

    def restore_ms(self, size: int | None) -> int | None:
        """How long an instance reads so much state; None if that is unknown."""
        return None if size is None or self.bytes_per_s is None else round(1000 * size / self.bytes_per_s)


def instance_names(client_ids: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """A name for each process id: what the client ids of all its threads, and of no other, begin with, else the id."""
    stems = {process: {client_id.split(_THREAD)[0] for client_id in ids} for process, ids in client_ids.items()}
    uses = Counter(stem for each in stems.values() for stem in each)
    return {
        process: stem if stem and len(each) == 1 and uses[stem] == 1 else process
        for process, each in stems.items()
        for stem in list(each)[:1]
    }


def check_settled(application: Application) -> None:
    """Raise Refused if the tasks of a classic application are elsewhere than its clients' default assignor puts them.

    The broker's tasks may be elsewhere than it would put them now: it leaves them there.
    """
    if application.classic and application.instances != _instances(application.assign(application.members)):
        raise Refused(
            f"{application.group}: its tasks are not where the default assignor of its clients puts them",
            details=(
                "An instance still reads the state of a task that will move to it. Or they have not reported yet which "
                "tasks have state, as they do at the next rebalance. Or they have another assignor: "
                "task.assignor.class, rack.aware.assignment.strategy, rack.aware.assignment.tags.",
            ),
            hint=Hint("{}", ("describe", application.group, "--members")),
            code=TASKS_ELSEWHERE,
        )


def simulate_application(
    application: Application, change: GroupChange, asked_assignor: str | None
) -> tuple[GroupChange, tuple[ApplicationRun, ...]]:
    """The change with the process ids of leaving instances, and its runs: one, or 20 if instances are added.

    Raises Refused for another change, or if there are too few instances, and NotFound for an unknown instance.
    """
    if change.kill or change.more_partitions or change.restart or asked_assignor:
        raise Refused(
            f"{application.group} is a Streams application: only added and removed instances are simulated",
            hint="--add or --remove alone",
            code=INSTANCES_ONLY,
        )
    leaving = _leaving(application, change)
    change = msgspec.structs.replace(change, leaving=leaving, remove=0)
    seeds = range(RUNS if change.add else 1)
    return change, tuple(_run(application, leaving, _added(application.members, change.add, seed)) for seed in seeds)


def _run(application: Application, leaving: Sequence[str], added: Sequence[TaskMember]) -> ApplicationRun:
    members, steps = application.members, []
    for gone, new in ((leaving, ()), ((), added)):
        if gone or new:
            before = members
            members = application.assign([each for each in (*members, *new) if each.process_id not in gone])
            steps.append(_step(application, _instances(before), _instances(members)))
    return ApplicationRun(application.instances, _instances(members), tuple(steps))


def _added(members: Sequence[TaskMember], count: int, seed: int) -> tuple[TaskMember, ...]:
    """The threads of new instances with invented ids, each with as many as most have."""
    ((threads, _),) = Counter(Counter(member.process_id for member in members).values()).most_common(1)
    ids = (str(made_up_uuid(seed, number)) for number in counter())
    processes = [next(ids) for _ in range(count)]
    return tuple(TaskMember(next(ids), process_id) for process_id in processes for _ in range(threads))


def _instances(members: Sequence[TaskMember]) -> dict[str, Instance]:
    instances: dict[str, Instance] = {}
    for member in members:
        had = instances.get(member.process_id, Instance(0, frozenset(), frozenset()))
        instances[member.process_id] = Instance(
            had.threads + 1, had.active.union(member.active), had.standby.union(member.standby)
        )
    return instances


def _step(application: Application, before: Instances, after: Instances) -> TaskStep:
    ran = {task: process for process, each in before.items() for task in each.active}
    runs = {task: process for process, each in after.items() for task in each.active}
    moved = frozenset(task for task, process in runs.items() if ran.get(task) != process)
    with_state = frozenset(application.topology.tasks(stateful=True))
    none = Instance(0, frozenset(), frozenset())
    reads = tuple(
        (process, task)
        for process, each in after.items()
        for task in sorted((each.tasks & with_state) - before.get(process, none).tasks)
    )
    read = set(reads)
    kept = {task for process, each in before.items() if process in after for task in each.tasks}
    stopped = frozenset(
        # A classic leader leaves the task where its state is, until it is copied.
        task
        for task in moved
        if (runs[task], task) in read and not (application.classic and task in kept)
    )
    taken = sorted(
        (task for task in moved if ran.get(task) in after),
        key=lambda task: ((runs[task], task) in read, application.sizes.get(task) or 0),
    )
    needless = max(0, len(taken) - _moves_for_balance(before, after))
    return TaskStep(moved, tuple(taken[:needless]), reads, stopped)


def _moves_for_balance(before: Instances, after: Instances) -> int:
    """How many tasks the instances that stay have more than their share, which follows from their threads."""
    threads = sum(each.threads for each in after.values())
    each_thread, over = divmod(sum(len(each.active) for each in after.values()), threads)
    excess = [
        (len(before[process].active) - each_thread * each.threads, each.threads)
        for process, each in after.items()
        if process in before
    ]
    one_more = sum(min(more, count) for more, count in excess if more > 0)
    return sum(more for more, _ in excess if more > 0) - min(over, one_more)


def _needless_reads(step: TaskStep) -> list[StreamsTask]:
    read = {task for _, task in step.reads}
    return [task for task in step.needless if task in read]


def _leaving(application: Application, change: GroupChange) -> tuple[str, ...]:
    """The process ids of the instances that leave: those that are named, or the last ones by name."""
    names = application.names
    ordered = sorted(application.instances, key=lambda process: numbers_apart(names[process]))
    leaving = tuple(dict.fromkeys(_instance(application, name) for name in change.leaving))
    if (count := len(leaving) or change.remove) >= len(ordered):
        raise Refused(
            f"{application.group} has {plural(len(ordered), 'instance')}: {count} cannot be removed, one has to stay",
            code=TOO_FEW_MEMBERS,
        )
    return leaving or tuple(ordered[len(ordered) - count :])


def _instance(application: Application, name: str) -> str:
    of = {process: {process, label} for process, label in application.names.items()}
    for member in application.members:
        of[member.process_id].add(member.member_id)
    alike = [process for process, names in of.items() if name in names]
    if alike:
        return alike[0]
    near = get_close_matches(name, application.names.values(), n=3, cutoff=0.5)
    raise NotFound(
        f"{application.group} has no instance {name}",
        details=(f"Near: {', '.join(near)}",) if near else (),
        hint=Hint("{}", ("describe", application.group, "--members")),
    )
