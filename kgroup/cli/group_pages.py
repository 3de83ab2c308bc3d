"""The texts of the pages of verbs that have verbs of their own, in the form of a verb's docstring."""

from __future__ import annotations

ABOUT = {
    "catchup": """Skip to the log end now, and replay the gap in parallel.

After a crash, the group starts at the log end at once. The records between its commits and the log end are its gap.
Spark replays the gap in parallel, and a ledger accounts for every record. Each command prints a plan; add --execute
to apply it. Guarantees and rights: kgroup help catch-up.

Examples:
# list the plans: what is pending, and until when
kgroup catchup

# plan a catch-up into a topic; add --execute to start it
kgroup catchup start orders-svc --to-topic orders-backfill

# continue an interrupted replay, on any machine
kgroup catchup resume orders-svc
""",
    "context": """List, choose and show named clusters.

A context is a named cluster with its client settings, in ~/.config/kgroup/config.yaml or the file of KGROUP_CONFIG.
An example of such a file: kgroup help connection.

Examples:
# list the named clusters
kgroup context list

# use one of them from now on
kgroup context use prod

# show the settings that apply, and where each is set
kgroup context show
""",
    "sandbox": """Run a real Kafka on this machine, and a demo of a crash.

The brokers listen on loopback only. They need Java 17 or newer, and fetch Kafka once.

Examples:
# start a broker, and print its address
kgroup sandbox up

# crash a real consumer, and catch its group up
kgroup sandbox demo

# stop the sandbox, and delete its data
kgroup sandbox down --wipe
""",
}
