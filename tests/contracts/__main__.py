"""``python -m tests.contracts --write [-k VERB]``: write the files of the contracts anew, to be read as a diff."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.contracts import WRITE

if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit(__doc__)
    os.environ[WRITE] = "1"
    sys.exit(pytest.main(["-q", str(Path(__file__).parent), *sys.argv[2:]]))
