"""The options that every verb has: connection and output."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.cli.help_parts import CONNECTION, WHAT
from kgroup.model.output_format import Format

_FORMATS = "|".join(name for name in Format if name not in (Format.KCG, Format.PROMETHEUS))

OPTIONS: dict[str, dict[str, Any]] = {
    "Connection": {
        "bootstrap_server": typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT[,...]",
            rich_help_panel=CONNECTION,
            help="Brokers to ask first.",
        ),
        "command_config": typer.Option(
            "--command-config",
            metavar="FILE",
            rich_help_panel=CONNECTION,
            help="Client settings: librdkafka's or Java's properties.",
        ),
        "property": typer.Option(
            "-X",
            "--property",
            metavar="KEY=VALUE",
            rich_help_panel=CONNECTION,
            help="One client setting; may be repeated.",
        ),
        "context": typer.Option(
            "--context",
            metavar="NAME",
            rich_help_panel=CONNECTION,
            help="A named cluster, see kgroup context.",
        ),
        "timeout": typer.Option(
            "--timeout",
            metavar="DURATION",
            rich_help_panel=CONNECTION,
            help="How long each question to the cluster may take, 10s by default; a bare number is milliseconds.",
        ),
    },
    "Presentation": {
        "output": typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            rich_help_panel=WHAT,
            help=_FORMATS + "; table by default, kcg for export; prometheus: lag alone.",
        ),
        "debug": typer.Option(
            "--debug",
            metavar="FILE",
            rich_help_panel=CONNECTION,
            help="Write a log of what the clients do, without secrets.",
        ),
    },
}
