"""Runs in kgroup.pyz before kgroup: a Python that the file was not built for gets a sentence, not a traceback."""

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

(client,) = find_spec("confluent_kafka").submodule_search_locations
if not PathFinder.find_spec("cimpl", [client]):  # compiled
    built_for = next(Path(client).glob("cimpl.*.so")).name.split(".")[1]
    sys.exit(f"kgroup: this kgroup.pyz needs {built_for}; this Python is {sys.implementation.cache_tag}")
