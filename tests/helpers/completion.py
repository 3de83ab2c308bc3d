"""Completion as the shells use it: what they ask, and a prompt at which keys are typed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kgroup.cli.completion.names import STALE_S
from kgroup.commands.completion import SCRIPTS
from tests.helpers.places import ROOT
from tests.helpers.shells import Terminal
from tests.helpers.waiting import wait_for

GROUPS = "kgroup describe "
TOPICS = "kgroup describe --topic "
CONTEXTS = "kgroup --context "
READY = "ready> "
OPEN = "open> "
"""The prompt for the rest of a line whose quote is open."""


NASTY = [
    "plain",
    "with space",
    "it's",
    'say "hi"',
    "$(touch hacked)",
    "`touch hacked`",
    "a:b:c",
    "k=v",
    "a@b",
    "dollar$HOME",
    "semi;colon&and|pipe",
    "back\\slash",
    "star*[ab]?",
    "ünïcode-名前",
    "~tilde",
    "#hash",
    "bang!bang",
    "{a,b}",
    "<(ls)>x",
    "trailing\\",
    "^caret%",
]


class Asker:
    """Runs ``kgroup __complete`` as the shells do."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache

    def __call__(self, line: str) -> list[str]:
        return [row.rstrip("\t") for row in self.process(line).stdout.splitlines()[1:]]

    def process(self, line: str) -> subprocess.CompletedProcess[str]:
        """Once, in a cold process; it must print nothing to stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "kgroup", "__complete", "fish"],
            capture_output=True,
            text=True,
            env=os.environ | {"KGROUP_LINE": line},
            stdin=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done

    def until(self, wanted: str, line: str) -> list[str]:
        """Press the key until the name is there, and not on old names."""

        def found() -> list[str] | None:
            names = self(line)
            if wanted not in names:
                self.forget()
            return names if wanted in names else None

        return wait_for(found, f"{wanted} after {line!r}")

    def lock(self) -> Path:
        """The file of the last try at the one cluster; until there is one: a process may have no time left for it."""

        def tried() -> list[Path]:
            assert self(GROUPS) == []
            return list(self.cache.glob("names/*.lock"))

        (lock,) = wait_for(tried, "a try")
        return lock

    def forget(self) -> None:
        """As if the names and the last try were from long ago."""
        for file in self.cache.glob("names/*"):
            if file.suffix == ".lock":
                file.write_text("")
            else:
                self.age(file, STALE_S + 1)

    @staticmethod
    def age(file: Path, by_s: float) -> None:
        """Make a file this old, unless the process that asks the cluster has just renamed it."""
        then = time.time() - by_s
        with suppress(FileNotFoundError):
            os.utime(file, (then, then))


class Prompt:
    """A shell with our script, at whose prompt ``kgroup`` writes down what it is given."""

    def __init__(self, shell: str, folder: Path) -> None:
        self.shell, self._folder = shell, folder
        self._record = folder / "record"
        self._home = folder / "home"
        (folder / "bin").mkdir()
        self._home.mkdir()
        program = folder / "bin" / "kgroup"
        program.write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = __complete ]; then exec {shlex.quote(sys.executable)} -m kgroup "$@"; fi\n'
            'printf \'%s\\0\' "$@" > "$RECORD.part" && mv "$RECORD.part" "$RECORD"\n'
        )
        program.chmod(0o755)
        self.script = ROOT / "completions" / SCRIPTS[shell]
        self.before = {
            "bash": f"PS1='{READY}'; PS2='{OPEN}'; source {shlex.quote(str(self.script))}",
            "zsh": f"PROMPT='{READY}'; PROMPT2='{OPEN}'\n"
            "autoload -Uz compinit; compinit -u -d ~/.zcompdump\n" + f"source {shlex.quote(str(self.script))}",
            "fish": f"function fish_prompt; echo '{READY}'; end; source {shlex.quote(str(self.script))}",
        }[shell]

    @property
    def env(self) -> dict[str, str]:
        """The test's environment as it is now, with a home of the shell's own."""
        return {
            **os.environ,
            "HOME": str(self._home),
            "ZDOTDIR": str(self._home),
            "XDG_CONFIG_HOME": str(self._home),
            "XDG_DATA_HOME": str(self._home),
            "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RECORD": str(self._record),
            "LC_ALL": "C.UTF-8",
            "PS1": READY,
            "HISTFILE": "",
        }

    def words(self) -> list[str]:
        """What starts the shell, interactive."""
        if self.shell == "bash":
            (self._home / ".bashrc").write_text(self.before)
            return [self.shell, "--noprofile", "--rcfile", str(self._home / ".bashrc"), "-i"]
        if self.shell == "zsh":
            (self._home / ".zshrc").write_text(self.before)
            return [self.shell, "-d", "-i"]
        return [self.shell, "--no-config", "-i", "-C", self.before]

    @contextmanager
    def terminal(self) -> Iterator[Terminal]:
        """The shell in a terminal, ready for keys."""
        with Terminal(self.words(), self.env, self._folder) as terminal:
            terminal.expect(READY)
            yield terminal

    def completes(self, terminal: Terminal, keys: str, wanted: list[str]) -> None:
        """The program gets these words."""
        assert self.given(terminal, keys) == wanted

    def names(self, terminal: Terminal, keys: str, wanted: list[str]) -> None:
        """... of which one is a name that a process has to find, within 0.3 s or not at all.

        Where it has not found it on a busy machine, the line stays as it was typed; it is never another one.
        """
        typed = shlex.split(re.sub(r"^kgroup |['\"\t]", "", keys))
        quoted = len(re.findall("['\"]", keys)) % 2 == 1
        seen: list[list[str] | None] = []

        def other() -> bool:
            seen.append(self.given(terminal, keys, quoted))
            return seen[-1] not in (None, typed)

        wait_for(other, f"{wanted} for {keys!r}", 60)
        assert seen[-1] == wanted

    def given(self, terminal: Terminal, keys: str, quoted: bool = False) -> list[str] | None:
        """What the program gets when these keys and Enter are pressed; None where a quote that is ``quoted`` stays
        open, so that the shell wants another line.
        """
        self._record.unlink(missing_ok=True)
        shown = len(terminal.screen)
        terminal.type(keys + "\r")

        def taken() -> bool:
            return self._record.exists() or (quoted and OPEN in terminal.screen[shown:])

        try:
            # fish has no prompt for the next line: there the quote is open if nothing is started for a while.
            wait_for(taken, f"kgroup started by {keys!r}", 5 if quoted and self.shell == "fish" else 15)
        except AssertionError as error:
            if not quoted:
                raise AssertionError(f"{error}\n--- screen\n{terminal.screen}") from None
        if not self._record.exists():
            shown = len(terminal.screen)
            terminal.type("\x03")
            # What is typed before the next prompt, the terminal throws away with the line.
            wait_for(lambda: READY in terminal.screen[shown:], "the next prompt")
            return None
        return self._record.read_text().split("\0")[:-1]
