"""``python -m tests.docs --write``: write the generated parts and the pictures of the manual again."""

from __future__ import annotations

import sys

from tests.benchmarks.catalogue import RESULTS, stored
from tests.benchmarks.scale_page import PLOT, plot, runs
from tests.docs.generated import regenerate
from tests.docs.picture import PICTURE, picture
from tests.helpers.manual import FRONT, INDEX, read

if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    for path in (FRONT, *INDEX.parent.rglob("*.md")):
        path.write_text(regenerate(read(path)), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
    PLOT.write_text(plot(runs(stored(RESULTS))), encoding="utf-8")
