"""What ``kgroup help TOPIC`` says: what does not belong to one verb alone."""

from __future__ import annotations

import textwrap

from kgroup.errors import EXIT_MEANINGS

TOPICS = {
    "exit-codes": "\n".join(f"{code:>4}  {meaning}" for code, meaning in EXIT_MEANINGS.items()),
    "output": textwrap.dedent("""\
        -o table      for people; width and colour follow the terminal (NO_COLOR)
        -o wide       the same with all columns
        -o json       {"kind": "kgroup.<verb>/v1", "cluster", "executed",
                       "data": [...], "errors": [...]}, the same when it failed;
                      null is unknown, offsets are integers
        -o yaml       the same document as YAML
        -o csv        one flat table with a header; unknown is an empty field
        -o markdown   one fenced block for a ticket or a chat
        stdout has the result only; progress, notes, warnings and errors go to
        stderr."""),
    "connection": textwrap.dedent("""\
        -b, --bootstrap-server HOST:PORT   KGROUP_BOOTSTRAP_SERVER
        --context NAME                     KGROUP_CONTEXT
                                           kgroup context list|use|show
        --command-config FILE              KGROUP_COMMAND_CONFIG
                                           librdkafka's or Java's properties
        -X, --property KEY=VALUE           KGROUP_PROPERTIES
                                           (several, with blanks between them)
        --timeout 10s (the default)        KGROUP_TIMEOUT
                                           a bare number is milliseconds
        --debug FILE                       KGROUP_DEBUG
                                           what the client does, without secrets
        -o, --output FORMAT                KGROUP_OUTPUT
        Flag > environment > context file. All go before or after the verb."""),
}
