"""The options that every verb has: connection and output."""

from __future__ import annotations

from typing import Any

from kgroup.cli.panels import connection_option, output_option

OPTIONS: dict[str, dict[str, Any]] = {
    "Connection": {
        "bootstrap_server": connection_option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT[,...]",
            help="Brokers to connect to first (KGROUP_BOOTSTRAP_SERVER).",
        ),
        "command_config": connection_option(
            "--command-config", metavar="FILE", help="Client settings: properties of librdkafka or Java."
        ),
        "property": connection_option("-X", "--property", metavar="KEY=VALUE", help="One client setting (repeatable)."),
        "context": connection_option("--context", metavar="NAME", help="A named cluster: kgroup help context."),
        "timeout": connection_option(
            "--timeout",
            metavar="DURATION",
            help="Time limit for each request; a bare number is milliseconds (default: 10s).",
        ),
    },
    "Presentation": {
        "output": output_option("--output", "-o", metavar="FORMAT", help="Output format: kgroup help output."),
        "no_headers": output_option("--no-headers", help="Leave out the headers of tables and csv."),
        "no_color": output_option("--no-color", help="Print without colour, as with NO_COLOR."),
        "quiet": output_option("--quiet", "-q", help="Hide progress and notes; warnings and errors stay."),
        "debug": connection_option(
            "--debug", metavar="FILE", help="Write a log of the clients to FILE, without secrets."
        ),
    },
}
