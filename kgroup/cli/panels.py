"""Makers of options, one for each heading that several verbs have on their help pages."""

from __future__ import annotations

from functools import partial

import typer

from kgroup.cli.help_parts import CONNECTION, OUTPUT, SAFETY, WHAT, WHICH

connection_option = partial(typer.Option, rich_help_panel=CONNECTION)
output_option = partial(typer.Option, rich_help_panel=OUTPUT)
safety_option = partial(typer.Option, rich_help_panel=SAFETY)
what_option = partial(typer.Option, rich_help_panel=WHAT)
which_option = partial(typer.Option, rich_help_panel=WHICH)

FILE_SINK = safety_option(
    "--file-sink",
    metavar="DIR|none",
    help="The folder that a streaming query writes to by Spark's file sink, or none.",
)
