"""``python -m tests.generate``: write again all files that are made from the code; no broker is needed."""

from __future__ import annotations

from tests.helpers import refusal_codes, verb_rights
from tests.helpers.places import ROOT

if __name__ == "__main__":
    for name, made in (("refusals.json", refusal_codes.data_file()), ("rights.json", verb_rights.data_file())):
        (ROOT / "kgroup" / "data" / name).write_text(made, encoding="utf-8")
    # Imported here: they read what was just written.
    from kgroup.cli.completion.candidates import DATA
    from tests.benchmarks.catalogue import RESULTS, stored
    from tests.benchmarks.scale_page import PLOT, plot, runs
    from tests.docs.generated import regenerate
    from tests.docs.picture import PICTURE, picture
    from tests.helpers.completion_tree import read_tree, text_of
    from tests.helpers.manual import FRONT, INDEX, read

    DATA.write_text(text_of(read_tree()), encoding="utf-8")
    for path in (FRONT, *INDEX.parent.rglob("*.md")):
        path.write_text(regenerate(read(path)), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
    PLOT.write_text(plot(runs(stored(RESULTS))), encoding="utf-8")
