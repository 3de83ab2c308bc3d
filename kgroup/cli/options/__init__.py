"""The options of the shared option bundles: flags, value names, help. Only this package defines them.

The bundles (``Connection``, ``Selection``, ``Change`` ...) are plain values of the layer that uses them. Each module
here has a table ``OPTIONS``: by the name of a bundle's class, the Typer option of each field that the class declares.
So the command line does not import those layers. A module is imported when a verb takes such a bundle. A bundle of a
single command is annotated in that command.
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
    "GapOptions": "catchup",
    "SafetyOptions": "catchup",
    "ExecuteOptions": "catchup",
    "LedgerOptions": "catchup",
    "SinkOptions": "replay",
    "SpeedOptions": "replay",
}
"""The module of this package that has a bundle's options, by the name of the bundle's class."""


def field_annotations(bundle: type) -> dict[str, Any]:
    """The types of the bundle's fields, each annotated with its option, as Typer requires.

    A field whose option is None is left out: a bundle does not offer it, though its base does. Raises TypeError for a
    field without an option.
    """
    hints = get_type_hints(bundle, include_extras=True)
    annotated = {field.name: _annotated(bundle, field.name, hints[field.name]) for field in fields(bundle)}
    return {name: hint for name, hint in annotated.items() if hint is not None}


def _annotated(bundle: type, field: str, hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return hint
    for owner in bundle.__mro__:  # a bundle inherits the options of its bases
        if module := MODULE_OF.get(owner.__name__):
            options = import_module(f"{__name__}.{module}").OPTIONS.get(owner.__name__, {})
            if field in options:
                return None if options[field] is None else Annotated[hint, options[field]]
    raise TypeError(f"{bundle.__name__}.{field}: no option is declared for it in {__name__}")
