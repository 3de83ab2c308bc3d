"""A damaged table of the installation is an error of kgroup's, not a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.queries import data_files
from kgroup.queries.doctor_explanations import explanations
from kgroup.queries.migration_data import load_rules
from kgroup.support.errors import ExitCode, KgroupError


@pytest.mark.parametrize("content", [None, b"", b"rules: [", b"rules: 3", b"rules: [{id: x}]", b"\xff", b"- clients"])
def test_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    (tmp_path / "data").mkdir()
    for name in ("clients.yaml", "broker_defects.yaml", "doctor_rules.yaml"):
        if content is not None:
            (tmp_path / "data" / name).write_bytes(content)
    monkeypatch.setattr(data_files, "files", lambda package: tmp_path)
    for load, named in ((load_rules, "clients.yaml or broker_defects.yaml"), (explanations, "doctor_rules.yaml")):
        load.cache_clear()
        with pytest.raises(KgroupError, match=rf"^this installation of kgroup is damaged: {named} ") as found:
            load()
        assert (found.value.exit_code, found.value.code) == (ExitCode.FAILED, "installation")
