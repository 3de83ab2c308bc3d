"""``--to-python module:function``: called with batches of records; an exception refuses the batch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from kgroup.catchup.worker.handler_pool import Handler, HandlerRefusal
from kgroup.catchup.worker.task_spec import TaskSpec
from kgroup.model.records import ConsumerRecord
from kgroup.support.errors import KgroupError, UsageError

HandlerFunction = Callable[[list[dict[str, Any]]], object]


def load(target: str) -> HandlerFunction:
    """Import the function ``module:function``. Raises UsageError, or KgroupError with code ``handler-missing``."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"--to-python {target}: not MODULE:FUNCTION")
    try:
        loaded: Any = importlib.import_module(module_name)
        for part in name.split("."):
            loaded = getattr(loaded, part)
    except Exception as error:  # importing a module can raise anything
        raise KgroupError(
            f"{target} could not be imported: {type(error).__name__}: {error}",
            hint="Spark's workers must be able to import it too",
            code="handler-missing",
        ) from error
    if not callable(loaded):
        raise KgroupError(f"{target} is not a function", code="handler-missing")
    function: HandlerFunction = loaded
    return function


def handlers(spec: TaskSpec) -> Callable[[], Handler]:
    """A factory for the handlers of a task. All lanes call the same function, possibly in parallel."""
    function = load(spec.options.get("function", ""))
    return lambda: _Calling(function, spec)


class _Calling:
    hangs_for_ever = True

    def __init__(self, function: HandlerFunction, spec: TaskSpec) -> None:
        self.most = max(1, spec.handling.batch)
        self._function = function
        self._spec = spec

    def handle(self, records: Sequence[ConsumerRecord]) -> None:
        try:
            self._function([as_dict(record, self._spec) for record in records])
        except (Exception, SystemExit) as error:
            raise HandlerRefusal(f"{type(error).__name__}: {error}") from error

    def close(self) -> None: ...

    def kill(self) -> None: ...


def as_dict(record: ConsumerRecord, spec: TaskSpec) -> dict[str, Any]:
    """The record as the function gets it: key and value as bytes, timestamp in ms, headers as (name, bytes) pairs."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": list(record.headers),
        "maybe_processed": record.offset < spec.maybe_until(record.tp),
    }
