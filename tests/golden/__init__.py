"""What the reading verbs show of real situations: pages, JSON and exit codes, from a broker's answers that are stored.

``python -m tests.golden --write`` makes the golden files again from the stored answers, to be read as a diff.
``python -m tests.golden --record`` makes the situations on a real broker again, with real clients, and stores what it
answers; then every number and time in the golden files changes.
"""

from pathlib import Path

WRITE, RECORD = "GOLDEN_WRITE", "GOLDEN_RECORD"
"""In the environment: the golden files are written, not compared; the broker's answers are recorded before."""

DATA = Path(__file__).with_name("data")
CLUSTER = DATA / "cluster.json"
