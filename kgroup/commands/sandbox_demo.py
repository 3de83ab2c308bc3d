"""The second half of ``kgroup sandbox demo``: handles the crash as the command line would, and checks the result.

The steps are ``catchup start --release-only``, a restart of the application, ``catchup resume --to-topic``. At the end
kgroup reads the target topic independently of the replay, and checks what the application handled.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import msgspec.structs

from kgroup.catchup.service.conditional_start import start_catchup
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import open_engine
from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.service.start import ResumeRequest, resume_catchup
from kgroup.catchup.service.start_plan import StartRequest
from kgroup.catchup.spark.ready import check
from kgroup.catchup.worker.provenance_headers import MAYBE_PROCESSED
from kgroup.changes.options import Change
from kgroup.cluster.snapshot import SnapshotRequest
from kgroup.groups.catchup.gap_request import GapRequest
from kgroup.groups.catchup.ledger_name import LEDGER_TOPIC
from kgroup.groups.selection import Selection
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome, Outcomes
from kgroup.output.pages import catchup, describe
from kgroup.output.pages.describe_records import DescribePart
from kgroup.queries.snapshots import snapshots
from kgroup.sandbox.demo import END, Crashed, DemoApplication, create_target, read_target
from kgroup.sandbox.demo_consumer import COMMITTED, PROCESSED
from kgroup.settings.connection import Connection
from kgroup.settings.invocation import Invocation
from kgroup.settings.sources import resolve
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import ExitCode, Refused, SandboxError
from kgroup.support.hint import Hint, hints_with_options
from kgroup.support.units import plural

_REASON = "kgroup sandbox demo"


def demo_outcomes(run: Invocation, crashed: Crashed, *, crash_only: bool) -> Outcomes:
    """Yield the pages of the demo. In formats for programs only the last page, the verification, is yielded.

    Ends early if a step is refused. Raises what the steps raise.
    """
    demo = _DemoRun(run, crashed)
    for_people = run.format.is_page
    with demo.hints(), open_engine(demo.settings, run.reporter, LEDGER_TOPIC) as engine:
        pages = iter((demo.page(engine),)) if crash_only else demo.pages(engine)
        last: Outcome | None = None
        for page in pages:
            if for_people:
                yield page
            last = page
        if last is not None and not for_people:
            yield last
        run.reporter.note(Hint("show the group again: {}", ("describe", crashed.group)))
    run.reporter.note("stop the sandbox: kgroup sandbox down --wipe")


class _DemoRun:
    def __init__(self, run: Invocation, crashed: Crashed) -> None:
        self._run, self._crashed = run, crashed
        self._connection = Connection(bootstrap_server=crashed.bootstrap_servers)
        # An empty environment: settings for another cluster (a context, its passwords) must not apply here.
        self.settings = resolve(self._connection, run.reporter, environ={})
        self._replay_options = ReplayOptions("topic", {"topic": crashed.target})

    def hints(self) -> AbstractContextManager[None]:
        """Within the block, the commands in hints are for the sandbox."""
        return hints_with_options(replace(self._run, connection=self._connection, line=CommandLine(())).command)

    def pages(self, engine: CatchupEngine) -> Outcomes:
        """Yield all pages: the crash, the plan, the release, the running group, the verification."""
        try:
            check(self._replay_options.spark, timeout_s=self.settings.timeout_s)
        except Refused as error:
            refusal = error.with_context(hint=f"{error.hint}; then run kgroup sandbox demo again")
            page = self.page(engine)
            yield msgspec.structs.replace(page, errors=(RowError.of(refusal), *page.errors), done=False)
            return
        yield self.page(engine)
        crashed = self._crashed
        create_target(crashed)
        start = ("catchup", "start", crashed.group)
        planned = self._started(engine, self._replay_options, (*start, "--to-topic", crashed.target), execute=False)
        yield planned
        if planned.exit_code is not ExitCode.DONE:
            return
        released = self._started(engine, ReplayOptions(), (*start, "--release-only", "--execute"), execute=True)
        yield released
        if released.exit_code is not ExitCode.DONE:
            return
        with DemoApplication(crashed) as application:
            first = application.await_more()[0]
            self._run.reporter.event(
                "CONSUME", f"{crashed.group} runs again; the first order that it handles is {first}"
            )
            line = self._typed("catchup", "resume", crashed.group, "--to-topic", crashed.target, "--execute")
            before = len(application.handled)
            resume = ResumeRequest(crashed.group, True, line, replay=self._replay_options)
            resumed = resume_catchup(engine, self.settings, resume)
            assert resumed is not None, "the demo has just released the group"
            verified = catchup.outcome(resumed, engine.cluster.ref, line)
            meanwhile = len(application.handled) - before
            self._run.reporter.event(
                "CONSUME",
                f"{crashed.group} handled {plural(meanwhile, 'new order')} after the log end at the same time",
            )
            page = self.page(engine)
        yield page
        faults = [] if verified.exit_code is not ExitCode.DONE else self._faults(engine, first, meanwhile)
        if faults:
            verified = msgspec.structs.replace(
                verified, errors=(*verified.errors, *faults), decided=ExitCode.CHECK_FAILED
            )
        yield verified

    def page(self, engine: CatchupEngine) -> Outcome:
        """The group as ``kgroup describe`` shows it."""
        which, cluster = Selection(names=[self._crashed.group]), engine.cluster
        (snapshot,) = snapshots(self._run.reporter, cluster, which, SnapshotRequest())
        return describe.outcome(DescribePart.PAGE, snapshot.groups, cluster.ref, snapshot.errors)

    def _typed(self, *words: str) -> CommandLine:
        """Report a command for the sandbox, as if the user had typed it."""
        line = CommandLine(("kgroup", *words, "-b", self._crashed.bootstrap_servers))
        self._run.reporter.event("RUN", str(line))
        return line

    def _started(
        self, engine: CatchupEngine, replay_options: ReplayOptions, words: Sequence[str], *, execute: bool
    ) -> Outcome:
        line = self._typed(*words)
        change = Change(execute=execute, reason=_REASON)
        request = StartRequest(self._crashed.group, GapRequest(), change, replay_options, line.words)
        return catchup.outcome(start_catchup(engine, self.settings, request), engine.cluster.ref, line)

    def _faults(self, engine: CatchupEngine, first: int, meanwhile: int) -> list[RowError]:
        """Errors for everything that is not as expected, although the replay reports success."""
        crashed = self._crashed
        faults = []
        if first != END:
            faults.append(f"the application started at {first} and not at the log end {END}")
        if not meanwhile:
            faults.append("the application handled nothing while the gap was replayed")
        expected = [f"order {number}".encode() for number in range(COMMITTED, END)]
        records = read_target(engine.cluster, self.settings, crashed)
        if [record.value for record in records] != expected:
            faults.append(f"{crashed.target} does not have the orders {COMMITTED} to {END - 1}, each once")
        else:
            marked = sum(any(key == MAYBE_PROCESSED for key, _ in record.headers) for record in records)
            self._run.reporter.event(
                "CHECKED",
                f"{crashed.target} has the orders {COMMITTED} to {END - 1}, each once; {marked} of them are marked as "
                f"possible duplicates of orders handled before the crash ({PROCESSED - COMMITTED} were)",
            )
        return [RowError(SandboxError.code, fault, crashed.group, exit_code=ExitCode.CHECK_FAILED) for fault in faults]
