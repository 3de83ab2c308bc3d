"""Nothing tells anybody to install kgroup by name: no package index has it."""

from __future__ import annotations

import re

from tests.helpers.places import ROOT


def test_no_text_installs_kgroup_by_its_name() -> None:
    texts = [*(ROOT / "kgroup").rglob("*.py"), *ROOT.glob("*.md"), ROOT / "Containerfile"]
    by_name = re.compile(r"pip install (?:[^\n`]*['\" ])?kgroup(?![-\w./])")
    assert by_name.search("pip install --quiet 'kgroup[catchup]'")
    assert by_name.search("pip install kgroup")
    assert {path: found for path in texts if (found := by_name.findall(path.read_text(encoding="utf-8")))} == {}
