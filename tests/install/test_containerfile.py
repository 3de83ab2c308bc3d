"""The rules that Containerfile keeps; test_artefacts.py replays its steps."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.helpers.places import ROOT
from tests.install.containerfile import instructions

INSTRUCTIONS = instructions((ROOT / "Containerfile").read_text(encoding="utf-8"))


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, ROOT / "Containerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_its_bases_are_one_slim_image_with_a_tag_of_a_python_that_is_tested() -> None:
    (base,) = {arguments.partition(" AS ")[0] for name, arguments in INSTRUCTIONS if name == "FROM"}
    (version,) = re.findall(r"^python:(3\.\d+)-slim-[a-z]+$", base)
    assert f'"Programming Language :: Python :: {version}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_its_user_is_not_root() -> None:
    last = INSTRUCTIONS[max(at for at, (name, _) in enumerate(INSTRUCTIONS) if name == "FROM") :]
    (user,) = [arguments for name, arguments in last if name == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)  # a number: Kubernetes' runAsNonRoot can't judge a name
    assert [name for name, _ in last if name == "RUN"] == []
