"""``kgroup completion``: the scripts as they are kept."""

from __future__ import annotations

import pytest

from kgroup.commands.completion import SCRIPTS
from tests.helpers.command_line import CommandLine
from tests.helpers.places import ROOT


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_printed_as_it_is(kgroup_cli: CommandLine, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    kept = (ROOT / "completions" / SCRIPTS[shell]).read_text(encoding="utf-8")
    assert kgroup_cli("completion", shell).stdout == kept
    (document,) = kgroup_cli("completion", shell, "-o", "json").data
    assert document == {"shell": shell, "script": kept}


def test_a_shell_that_is_not_known(kgroup_cli: CommandLine) -> None:
    printed = kgroup_cli("completion", "tcsh", exit_code=2).stderr

    assert "'tcsh'" in printed
    assert "bash, zsh, fish" in printed
