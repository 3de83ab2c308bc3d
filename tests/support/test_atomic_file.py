"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kgroup.support.atomic_file import AtomicFile, replace_file
from kgroup.support.errors import KgroupError, UsageError


def write(path: Path | str, content: bytes = b"content\n") -> None:
    with AtomicFile(path, "--to") as file:
        file.write(content)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_there_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out"

    with AtomicFile(target, "--to") as file:
        file.write(b"content")
        assert not target.exists()

    assert target.read_bytes() == b"content"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_nothing_is_left_of_what_failed(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with AtomicFile(tmp_path / "out", "--to") as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()

    assert names(tmp_path) == []


@pytest.mark.parametrize("url", ["s3a://lake/out", "s3a:/lake/out", "dbfs:/out", "file:///out"])
def test_a_url_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / url).parent.mkdir(parents=True, exist_ok=True)
    before = names(tmp_path)

    with pytest.raises(UsageError, match="a URL, and not a path of this machine"):
        AtomicFile(url, "--to").check()
    with pytest.raises(UsageError, match="a URL, and not a path of this machine"):
        write(Path(url))

    assert names(tmp_path) == before
    write(f"./x:{url[-3:]}")


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    target = tmp_path / "made-by-mktemp"
    target.touch()

    write(target)

    assert target.read_bytes() == b"content\n"


def test_what_a_killed_run_left_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "out.part").write_bytes(b"longer than the content of this run")

    write(tmp_path / "out")

    assert (tmp_path / "out").read_bytes() == b"content\n"
    assert names(tmp_path) == ["out"]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "out", "--to") as file:
        file.write(b"first")
        with pytest.raises(UsageError, match="another kgroup is writing"):
            write(tmp_path / "out")

    assert (tmp_path / "out").read_bytes() == b"first"


def test_a_file_that_came_meanwhile_stands(tmp_path: Path) -> None:
    def overtaken() -> None:
        with AtomicFile(tmp_path / "out", "--to") as file:
            file.write(b"ours")
            (tmp_path / "out").write_bytes(b"theirs")

    with pytest.raises(UsageError, match="is there already"):
        overtaken()

    assert (tmp_path / "out").read_bytes() == b"theirs"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("full", "is there already, and is not overwritten"),
        ("directory", "is a directory"),
        ("link-to-full", "is there already"),
        ("missing/out", "No such file or directory"),
        ("blocked", "blocked.part is in the way"),
        ("linked", "linked.part is in the way"),
        ("full/out", "Not a directory"),
    ],
)
def test_what_can_not_be_written_is_said_at_once(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "full").write_bytes(b"precious")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link-to-full").symlink_to("full")
    os.mkfifo(tmp_path / "blocked.part")
    (tmp_path / "linked.part").symlink_to("full")
    before = names(tmp_path)

    with pytest.raises(UsageError) as raised:
        write(tmp_path / name)

    assert message in raised.value.message
    assert str(tmp_path / name) in raised.value.message
    assert names(tmp_path) == before
    assert (tmp_path / "full").read_bytes() == b"precious"


def test_a_link_is_followed_to_where_it_points(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("out")

    write(tmp_path / "current")

    assert (tmp_path / "current").is_symlink()
    assert (tmp_path / "out").read_bytes() == b"content\n"


def test_devices_and_pipes_are_written_as_they_are(tmp_path: Path) -> None:
    write("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe")
    reader.join(10)

    assert read == [b"content\n"]
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_in_a_file_is_gone_on_with(tmp_path: Path, name: str) -> None:
    program = (
        "from kgroup.support.atomic_file import AtomicFile\nimport sys\nprint('before', flush=True)\n"
        f"with AtomicFile({name!r}, '--to') as file: file.write(b'content\\n')\nprint('after')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True, timeout=60)

    assert (tmp_path / "out").read_text() == "before\ncontent\nafter\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_said() -> None:
    with pytest.raises(KgroupError, match="/dev/full could not be written: No space left"):
        write("/dev/full")


def test_no_name_is_no_file() -> None:
    with pytest.raises(UsageError, match="--to requires the name of a file"):
        write("")


def test_a_descriptor_that_is_not_open_is_said() -> None:
    with pytest.raises(UsageError, match="/dev/fd/987: Bad file descriptor"):
        write("/dev/fd/987")


def test_replace_file_replaces_whole(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old and longer")

    replace_file(path, b"new", mode=0o640)

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 & ~umask()
    assert list(tmp_path.iterdir()) == [path]


def test_replace_file_leaves_the_old_one_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
