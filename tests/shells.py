"""Real shells for tests: the machine's own or, where one is missing, Debian's packages unpacked for this run; and a
terminal in which a shell runs and keys are typed.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import wait_for

PACKAGES = {
    "bash": ("bash",),
    "zsh": ("zsh", "zsh-common"),
    "fish": ("fish", "fish-common", "libpcre2-32-0"),
}
_DOWNLOAD_S = 120


class NoShell(Exception):
    """The shell is not on this machine and its packages could not be had; says why."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell: its program, and what has to stand in its environment."""

    name: str
    program: str
    env: Mapping[str, str] = field(default_factory=dict)


def find_shell(name: str, folder: Path) -> Shell:
    """The shell of this name, unpacked below ``folder`` if the machine has none. Raises NoShell."""
    if found := shutil.which(name):
        return Shell(name, found)
    return unpack_shell(name, folder)


def unpack_shell(name: str, folder: Path) -> Shell:
    """The shell from Debian's packages, without installing anything; needs no root. Raises NoShell."""
    root = folder / name
    try:
        _unpack(PACKAGES[name], folder, root)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or "").strip().splitlines()
        raise NoShell(f"install the package {name} (no unpacked one either: {error} {' '.join(said[-2:])})") from None
    libraries = next((root / "usr/lib").glob("*-linux-gnu"))
    if name == "fish":
        # It looks for its functions beside its own program, if there is an etc too.
        (root / "usr/etc").mkdir(exist_ok=True)
        (root / "usr/etc/fish").symlink_to(root / "etc/fish")
        return Shell(name, str(root / "usr/bin/fish"), {"LD_LIBRARY_PATH": str(libraries)})
    if name == "zsh":
        (modules,) = (libraries / "zsh").iterdir()
        functions = [str(root / "usr/share/zsh/functions")]
        functions += [str(path) for path in sorted(Path(functions[0]).rglob("*")) if path.is_dir()]
        return Shell(name, str(root / "bin/zsh"), {"TEST_MODULES": str(modules), "FPATH": ":".join(functions)})
    return Shell(name, str(root / "bin" / name))


def _unpack(packages: Sequence[str], folder: Path, root: Path) -> None:
    lists, cache, debs = folder / "lists", folder / "cache", folder / f"{root.name}-debs"
    for path in (lists / "partial", cache / "archives/partial", debs):
        path.mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "Debug::NoLocking=1", "-qq"]
    update = [] if any(lists.glob("*_Packages*")) else [["update"]]
    for words in (*update, ["download", *packages]):
        _run(["apt-get", *options, *words], debs)
    for deb in sorted(debs.glob("*.deb")):
        _run(["dpkg", "-x", str(deb), str(root)], debs)


def _run(words: Sequence[str], cwd: Path) -> None:
    subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True, timeout=_DOWNLOAD_S)


class Terminal:
    """A program in a terminal of its own, 200 columns wide, that is typed at."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(words[0], list(words), {**env, "TERM": "xterm", "COLUMNS": "200", "LINES": "50"})
        self._seen = b""
        self._stopping = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping = True
        self._reader.join()
        os.close(self._fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._fd, text.encode())

    @property
    def screen(self) -> str:
        """All that was shown since the beginning."""
        return self._seen.decode("utf-8", "replace")

    def expect(self, text: str, within_s: float = 30) -> None:
        """Wait until this was shown."""
        try:
            wait_for(lambda: text in self.screen, f"{text!r} on the screen", within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- screen\n{self.screen}") from None

    def _read(self) -> None:
        while not self._stopping:
            if not select.select([self._fd], [], [], 0.05)[0]:
                continue
            try:
                piece = os.read(self._fd, 65536)
            except OSError:
                return
            self._seen += piece
            if not piece:
                return
