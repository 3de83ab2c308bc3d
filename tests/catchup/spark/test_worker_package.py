"""Where workers of this machine find kgroup; what is sent to others is tested in worker/test_imports.py."""

from __future__ import annotations

import site
from pathlib import Path

import pytest

from kgroup.catchup.spark import worker_package


@pytest.mark.parametrize("directory", [*site.getsitepackages(), site.getusersitepackages()])
def test_an_installed_kgroup_is_found_without_a_path(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_package, "ROOT", Path(directory, "kgroup"))
    assert worker_package.import_path() == ""


@pytest.mark.parametrize("directory", ["/src", "/home/maria/.shiv/kgroup.pyz_5f2c/site-packages"])
def test_any_other_is_found_by_its_directory(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_package, "ROOT", Path(directory, "kgroup"))
    assert worker_package.import_path() == directory
