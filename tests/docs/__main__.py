"""``python -m tests.docs --write``: write the generated parts and the picture of the manual anew."""

from __future__ import annotations

import sys

from tests.docs.generated import regenerate
from tests.docs.picture import PICTURE, picture
from tests.support.manual import FRONT, INDEX, read

if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    for path in (FRONT, *INDEX.parent.rglob("*.md")):
        path.write_text(regenerate(read(path)), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
