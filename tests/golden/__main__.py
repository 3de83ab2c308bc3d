"""``python -m tests.golden --write [-k SITUATION]``, or ``--record``, which needs a broker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.golden import RECORD, WRITE

if __name__ == "__main__":
    if sys.argv[1:2] not in (["--write"], ["--record"]):
        sys.exit(__doc__)
    os.environ[WRITE] = "1"
    if sys.argv[1] == "--record":
        os.environ[RECORD] = "1"
    sys.exit(pytest.main(["-q", str(Path(__file__).with_name("test_golden.py")), *sys.argv[2:]]))
