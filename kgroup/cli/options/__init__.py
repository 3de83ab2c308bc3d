"""How the fields of the shared option bundles are typed: flags, value names, help; the only place that knows.

The bundles themselves (``Connection``, ``Selection``, ``Change`` ...) are plain values of the layer that uses
them. Each module here has a table ``OPTIONS``: for a bundle's class, the Typer option of each field that the class
declares. It is imported when a verb takes such a bundle. Bundles that one command has for itself are annotated there.
"""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Annotated, Any, get_origin, get_type_hints

MODULE_OF = {
    "Connection": "connection",
    "Presentation": "connection",
    "Groups": "selection",
    "Selection": "selection",
    "Execution": "execution",
    "Change": "execution",
    "Watch": "reading",
    "LogBounds": "reading",
    "AsOf": "reading",
    "FromLog": "reading",
    "Part": "catchup",
    "Care": "catchup",
    "Decided": "catchup",
    "Books": "catchup",
    "To": "replay",
    "Speed": "replay",
}
"""In which module of this package a bundle's options are, by the name of its class."""


def field_annotations(bundle: type) -> dict[str, Any]:
    """The types of the bundle's fields, each annotated with its option, as Typer wants them.

    Raises TypeError for a field that has none.
    """
    hints = get_type_hints(bundle, include_extras=True)
    return {field.name: _annotated(bundle, field.name, hints[field.name]) for field in fields(bundle)}


def _annotated(bundle: type, field: str, hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return hint
    for owner in bundle.__mro__:  # a bundle has the options of those that it is derived from
        if module := MODULE_OF.get(owner.__name__):
            options = import_module(f"{__name__}.{module}").OPTIONS.get(owner, {})
            if field in options:
                return Annotated[hint, options[field]]
    raise TypeError(f"{bundle.__name__}.{field}: no option is declared for it in {__name__}")
