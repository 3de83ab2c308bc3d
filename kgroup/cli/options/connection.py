"""The options that every verb has: connection and output."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.cli.help_parts import CONNECTION, OUTPUT

OPTIONS: dict[str, dict[str, Any]] = {
    "Connection": {
        "bootstrap_server": typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT[,...]",
            rich_help_panel=CONNECTION,
            help="Brokers to connect to first (KGROUP_BOOTSTRAP_SERVER).",
        ),
        "command_config": typer.Option(
            "--command-config",
            metavar="FILE",
            rich_help_panel=CONNECTION,
            help="Client settings: properties of librdkafka or Java.",
        ),
        "property": typer.Option(
            "-X",
            "--property",
            metavar="KEY=VALUE",
            rich_help_panel=CONNECTION,
            help="One client setting (repeatable).",
        ),
        "context": typer.Option(
            "--context",
            metavar="NAME",
            rich_help_panel=CONNECTION,
            help="A named cluster: kgroup help context.",
        ),
        "timeout": typer.Option(
            "--timeout",
            metavar="DURATION",
            rich_help_panel=CONNECTION,
            help="Time limit for each request; a bare number is milliseconds (default: 10s).",
        ),
    },
    "Presentation": {
        "output": typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            rich_help_panel=OUTPUT,
            help="Output format: kgroup help output.",
        ),
        "no_headers": typer.Option(
            "--no-headers", rich_help_panel=OUTPUT, help="Leave out the headers of tables and csv."
        ),
        "no_color": typer.Option("--no-color", rich_help_panel=OUTPUT, help="Print without colour, as with NO_COLOR."),
        "quiet": typer.Option(
            "--quiet", "-q", rich_help_panel=OUTPUT, help="Hide progress and notes; warnings and errors stay."
        ),
        "debug": typer.Option(
            "--debug",
            metavar="FILE",
            rich_help_panel=CONNECTION,
            help="Write a log of the clients to FILE, without secrets.",
        ),
    },
}
