"""A ``kgroup`` that runs as a process while the test looks at what it says on stderr."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.command_line import CommandLine, Result
from tests.helpers.waiting import wait_for


@dataclass
class Running:
    """The process, and the lines of stderr so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    listener: threading.Thread = field(default_factory=threading.Thread)

    def says(self, text: str, within_s: float = 60.0) -> str:
        """Wait for a line with this text; it fails at once if the process has ended without it."""

        def said() -> str | None:
            ended = self.process.poll() is not None and not self.listener.is_alive()
            found = next((line for line in self.lines if text in line), None)
            assert found or not ended, f"it ended without {text!r}:\n" + "\n".join(self.lines)
            return found

        return wait_for(said, f"{text!r} said", within_s)

    def ends(self, exit_code: int, within_s: float = 60) -> Result:
        """Wait for its end."""
        assert self.process.stdout
        stdout = ""

        def read() -> None:
            nonlocal stdout
            assert self.process.stdout
            stdout = self.process.stdout.read()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        code = self.process.wait(within_s)
        reader.join(10)
        self.listener.join(10)  # it may not have read the last line yet
        result = Result(code, stdout, "\n".join(self.lines))
        assert code == exit_code, f"exited {code}, not {exit_code}\n--- stdout\n{stdout}\n--- stderr\n{result.stderr}"
        return result


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """Start ``kgroup`` with these arguments, and listen to it; killed when the block ends."""
    process = CommandLine().start(*arguments)
    found = Running(process)

    def listen() -> None:
        assert process.stderr
        for line in process.stderr:
            found.lines.append(line.rstrip("\n"))

    found.listener = threading.Thread(target=listen, daemon=True)
    found.listener.start()
    try:
        yield found
    finally:
        process.kill()
        process.wait(10)
        found.listener.join(10)
        for pipe in (process.stdout, process.stderr):
            assert pipe
            pipe.close()


def delivered(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Whether a signal that was sent is no longer on its way; its handler runs before anything else does."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    assert len(pending) == 2
    return not any(mask >> (number - 1) & 1 for mask in pending)
