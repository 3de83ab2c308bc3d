"""Documents that are made as they are written."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kgroup.model.outcome import MadeDocuments


class _Number(msgspec.Struct, frozen=True):
    value: int

    def document(self) -> Mapping[str, int]:
        return {"value": self.value}


def test_documents_are_made_again_for_each_writer_and_counted_without_being_made() -> None:
    made: list[int] = []

    def make(value: int) -> _Number:
        made.append(value)
        return _Number(value)

    documents = MadeDocuments((1, 2), make)

    assert (bool(documents), len(documents), made) == (True, 2, [])
    assert [item.document() for item in documents] == [{"value": 1}, {"value": 2}]
    assert [item.document() for item in documents] == [{"value": 1}, {"value": 2}]
    assert not MadeDocuments((), make)
