"""Make a Typer command from a verb's function: each dataclass among the parameters becomes its options.

``def describe(run: Invocation, which: Selection, show: DescribeView) -> Outcome`` becomes one command with the options
of ``Selection`` and ``DescribeView``, and with those of ``Connection`` and ``Presentation``, which every verb has.
``kgroup.cli.options`` has the option of each field.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from kgroup.cli.options import field_annotations
from kgroup.settings.connection import Connection
from kgroup.settings.invocation import Invocation, Presentation
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kgroup.model.outcome import Outcome, Outcomes
    from kgroup.output.watch.request import WatchedVerb

VerbResult: TypeAlias = "Outcome | Outcomes | WatchedVerb"
Execute = Callable[[str, Invocation, Callable[[Invocation], VerbResult]], ExitCode]
"""Runs a verb (its full name, the invocation, a function that calls it) and shows what it returns."""

_SHOWN_LONG = frozenset({"-t", "-v"})
"""Short names that are not used in commands to paste: they are other options in other tools."""
_UNSET = "A variable of the script may be unset."
_COMMON: dict[str, type] = {"connection": Connection, "presentation": Presentation}


@cache
def command(name: str, verb: Callable[..., VerbResult], cls: type[TyperCommand], execute: Execute) -> Any:
    """The Typer command ``name`` that calls ``verb``; cached, because making it takes as long as asking the cluster."""
    app = _app()
    app.command(verb_name(verb), cls=cls)(_flat(name, verb, execute))
    return typer.main.get_command(app)


@cache
def group(
    name: str,
    verbs: tuple[Callable[..., VerbResult], ...],
    classes: tuple[type[TyperGroup], type[TyperCommand]],
    execute: Execute,
    default: str | None = None,
    about: str = "",
) -> Any:
    """The Typer group ``name`` with one command for each of ``verbs``; ``default`` is what the group alone does.

    ``about`` is the text of its help page.
    """
    app = _app(cls=classes[0], name=name, invoke_without_command=default is not None)

    def alone(ctx: typer.Context, connection: Connection, presentation: Presentation) -> ExitCode | None:
        _take_common(ctx, connection, presentation)
        if default is None or ctx.invoked_subcommand is not None:
            return None
        verb = ctx.command.get_command(ctx, default)  # type: ignore[attr-defined]
        return ExitCode(verb.invoke(verb.make_context(default, [], parent=ctx)))

    callback = _flat_root(alone)
    callback.__doc__ = about
    app.callback()(callback)
    for verb in verbs:
        full_name = f"{name} {verb_name(verb)}"
        app.command(verb_name(verb), cls=classes[1])(_flat(full_name, verb, execute))
    return typer.main.get_command(app)


@cache
def root(cls: type[TyperGroup], main: Callable[..., None]) -> Any:
    """The command line itself: a group with the options that every verb has, and ``main``'s own."""
    app = _app(cls=cls, invoke_without_command=True, name="kgroup")
    app.callback()(_flat_root(main))
    return typer.main.get_command(app)


def verb_name(verb: Callable[..., Any]) -> str:
    """The name to type: ``list`` for ``list_``, ``delete-offsets`` for ``delete_offsets``."""
    return verb.__name__.strip("_").replace("_", "-")


def _app(**settings: Any) -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


def _flat(name: str, verb: Callable[..., VerbResult], execute: Execute) -> Callable[..., ExitCode]:
    """``verb`` as a function with one parameter per option, as Typer requires."""
    hints = get_type_hints(verb, include_extras=True)
    own = {key: hint for key, hint in hints.items() if key != "return" and hint is not Invocation}
    bundles: dict[str, Any] = {key: hint for key, hint in own.items() if is_dataclass(hint)} | _COMMON
    plain = [key for key in own if key not in bundles]
    common = {field.name for bundle in _COMMON.values() for field in fields(bundle)}

    def callback(ctx: typer.Context, **values: Any) -> ExitCode:
        made = {key: bundle(**_pick(values, bundle)) for key, bundle in bundles.items()}
        run = _with_common(ctx.obj, made.pop("connection"), made.pop("presentation"))
        arguments = made | {key: values[key] for key in plain}
        typed = {key: value for key, value in values.items() if key not in common}
        run = replace(run, line=_command_line(ctx), changes=any("--execute" in p.opts for p in ctx.command.params))

        def call(run: Invocation) -> VerbResult:
            _check_values(ctx, typed)
            return verb(run, **arguments)

        return execute(name, run, call)

    own_parameters = [
        inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[key],
            default=inspect.signature(verb).parameters[key].default,
        )
        for key in plain
    ]
    _sign(callback, [*own_parameters, *_bundle_parameters(bundles)])
    callback.__doc__ = _docstring(verb)
    return callback


def _check_values(ctx: typer.Context, values: dict[str, Any]) -> None:
    """Raise UsageError for the usual effects of an unset variable in a command line.

    ``--reason $UNSET --execute`` would use ``--execute`` as the reason, and execute nothing.
    """
    options = {name for param in ctx.command.params if param.param_type_name == "option" for name in param.opts}
    for param in ctx.command.params:
        if param.name not in values:
            continue
        given = values[param.name]
        is_option = param.param_type_name == "option"
        name = max(param.opts, key=len) if is_option else (param.metavar or param.name).strip("[].").upper()
        for value in given if isinstance(given, list) else [given]:
            if is_option and isinstance(value, str) and value in options:
                raise UsageError(f"{name} took {value} for its value", hint=_UNSET)
            if value == "":
                raise UsageError(f"{name} is empty", hint=_UNSET)


def _command_line(ctx: Any) -> CommandLine:
    """What was typed at this level and those above it, as values; if an option was repeated, the value that counts."""
    params = {param.name: param for param in ctx.command.params}
    arguments: list[str] = []
    options: dict[str, tuple[str, ...]] = {}
    for key, value in ctx.params.items():
        source = ctx.get_parameter_source(key)
        if source is None or source.name != "COMMANDLINE":
            continue
        values = [str(one) for one in value] if isinstance(value, (list, tuple)) else [str(value)]
        if params[key].param_type_name == "argument":
            arguments += values
            continue
        names = [name for name in sorted(params[key].opts, key=len) if name not in _SHOWN_LONG]
        options[names[-1]] = (
            (names[0],) if value is True else tuple(word for one in values for word in _option_words(names, one))
        )
    above = _command_line(ctx.parent).words if ctx.parent else ()
    return CommandLine((*above, ctx.info_name or ""), tuple(arguments), options)


def _option_words(names: list[str], value: str) -> tuple[str, ...]:
    """An option with its value; joined by ``=`` if the value begins with a dash and would be taken for an option."""
    return (f"{names[-1]}={value}",) if value.startswith("-") and value != "-" else (names[0], value)


def _take_common(ctx: typer.Context, connection: Connection, presentation: Presentation) -> None:
    """Take options between a verb and the verb below it (``kgroup sandbox -o json status``)."""
    ctx.obj = _with_common(ctx.obj, connection, presentation)


def _with_common(run: Invocation, connection: Connection, presentation: Presentation) -> Invocation:
    """The invocation with these options, which override those typed further left."""
    return replace(
        run,
        connection=connection.with_defaults(run.connection),
        presentation=presentation.with_defaults(run.presentation),
    )


def _flat_root(main: Callable[..., ExitCode | None]) -> Callable[..., ExitCode | None]:
    hints = get_type_hints(main, include_extras=True)

    def callback(ctx: typer.Context, **values: Any) -> ExitCode | None:
        made = {key: bundle(**_pick(values, bundle)) for key, bundle in _COMMON.items()}
        return main(ctx, **made, **{key: value for key, value in values.items() if key in hints})

    own_parameters = [
        parameter.replace(annotation=hints[key], kind=inspect.Parameter.KEYWORD_ONLY)
        for key, parameter in inspect.signature(main).parameters.items()
        if key not in _COMMON and key != "ctx"
    ]
    _sign(callback, [*own_parameters, *_bundle_parameters(_COMMON)])
    return callback


def _pick(values: dict[str, Any], bundle: type) -> dict[str, Any]:
    return {field.name: values[field.name] for field in fields(bundle) if field.name in values}


def _bundle_parameters(bundles: dict[str, type]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )
        for bundle in bundles.values()
        for hints in [field_annotations(bundle)]
        for field in fields(bundle)
        if field.name in hints
    ]


def _sign(callback: Any, parameters: list[inspect.Parameter]) -> None:
    """Give the function the signature that Typer reads."""
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    callback.__signature__ = inspect.Signature([context, *parameters])
    callback.__annotations__ = {p.name: _bare(p.annotation) for p in (context, *parameters)}


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_args(annotation) and _is_annotated(annotation) else annotation


def _is_annotated(annotation: Any) -> bool:
    return hasattr(annotation, "__metadata__") and annotation is not Annotated


def _docstring(verb: Callable[..., Any]) -> str | None:
    if sys.flags.optimize >= 2:
        return None
    return inspect.getdoc(verb)
