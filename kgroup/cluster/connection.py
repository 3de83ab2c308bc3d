"""An open connection to a cluster. Each question has the whole time limit for itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.cluster.deadline import Deadline
from kgroup.settings.model import Settings
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError

T = TypeVar("T")


class ClusterConnection:
    """An open connection, to be closed by its context manager. Subclasses add the questions."""

    def __init__(self, settings: Settings) -> None:
        """Connect. Raises Unreachable or AuthenticationFailed with the reason."""
        self._timeout_s = settings.timeout_s
        self._client = CoordinatorClient(settings, Deadline.after(self._timeout_s))
        self._coordinators = GroupCoordinators(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        reference = self.ref
        self._client.close()
        if isinstance(error, KgroupError) and error.cluster is None:
            raise error.with_context(cluster=reference) from error

    def _ask(self, question: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Ask one question with the whole time limit, whatever time the questions before it needed."""
        return self._client.run(question, *arguments, deadline=Deadline.after(self._timeout_s))

    @property
    def ref(self) -> ClusterRef:
        """The cluster that answered."""
        return self._client.ref

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Limit each question in the block to ``seconds``, if ``--timeout`` allows more."""
        usual = self._timeout_s
        self._timeout_s = min(usual, seconds)
        try:
            yield
        finally:
            self._timeout_s = usual
