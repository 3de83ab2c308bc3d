"""Packages whose ``__init__.py`` waits until a name of it is needed, because it imports more than is used.

Importing such a package runs nothing; its modules can be imported as ever, and its ``__init__.py`` runs when a name is
asked for that only it has.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc imports importlib.resources, tempfile and shutil: a quarter of kgroup.consumer


def defer(fronts: Mapping[str, Mapping[str, str]]) -> None:
    """From now on the packages in ``fronts`` run their ``__init__.py`` only when one of its names is used.

    Each comes with the names that one of its modules can give without it: name to module. A package that was imported
    already stays as it is.
    """
    sys.meta_path.insert(0, _Finder(fronts))


class _Finder:
    def __init__(self, fronts: Mapping[str, Mapping[str, str]]) -> None:
        self._fronts = fronts

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in self._fronts else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Front(spec.loader, self._fronts[name])
        return spec


class _Front(Loader):
    """Loads a package without its ``__init__.py``, and finds its names as ``__getattr__`` (PEP 562) does."""

    def __init__(self, loader: Loader, places: Mapping[str, str]) -> None:
        self._loader = loader
        self._places = places
        self._started = False
        self._lock = threading.RLock()

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__dict__["__getattr__"] = lambda name: self._find(module, name)

    def _find(self, module: ModuleType, name: str) -> object:
        package = module.__name__
        if name in self._places:
            return getattr(importlib.import_module(f"{package}.{self._places[name]}"), name)
        if importlib.util.find_spec(f"{package}.{name}") is not None:
            return importlib.import_module(f"{package}.{name}")
        with self._lock:
            if not self._started:
                self._started = True
                self._loader.exec_module(module)
        try:
            return module.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
