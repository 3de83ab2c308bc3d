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
        -o kcg        kgroup export alone, and its default: the CSV without a
                      header of kafka-consumer-groups.sh --from-file
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
    "runbooks": textwrap.dedent("""\
        README, "Runbook recipes", has these as shell scripts, all of them tested:
          skip a poison pill
          replay the last two hours
          copy a group's offsets to its blue/green twin
          snapshot all groups nightly, and put one back to its snapshot
          reset under an autoscaler
          drop groups that were idle for 30 days
          move one group to the consumer protocol, and a fleet in a week
          a Kubernetes Job that resets, without root and without $HOME
        How they read:
          set -eu; KGROUP_CONTEXT and KGROUP_REASON exported; exit codes gate
          kgroup reset G ... || [ $? = 6 ]   rehearsal: 6 is "once it is empty"
          kgroup wait G --for empty --hold 15s --within 5m
          kgroup reset G ... --expect 1 --execute
          kgroup wait G --for members=6 --for lag=100 --within 10m"""),
    "refusals": textwrap.dedent("""\
        Exit code 6; the code is in brackets, and in json as errors[].code.
        not-empty            members are in the group: stop them, --wait-empty
        subscribed           a live member reads the topic: stop it, --wait-empty
        active-committer *   Empty, but somebody goes on committing
        foreign-owner *      Connect, Streams, Flink, Spark; share groups (never *)
        blocked              migrate: a check says why, and what to do
        joined-meanwhile     migrate: somebody joined just then; nothing was lost
        unread-commits       migrate: an offset can't be read, so not be kept
        unread-configs       migrate: --session-timeout could not be put back
        protocol-unavailable migrate: the broker does not offer it after all
        invalid-config       migrate: the broker does not take that timeout
        moved-since *        the offsets were moved since (* with undo only)
        pending-transaction  a producer's open transaction is to commit there
        unexpected-count     the plan has not as many rows as --expect says
        no-commit            --shift-by, but nothing is committed there
        read-only            the context says read_only: true
        context-not-named    the context says explicit: true; name it
        no-journal           it can't be written: KGROUP_STATE_DIR, --backup
        locked               another kgroup of this machine changes something
        not-yours            undo: somebody else's change; name its id
        not-undoable         undo: an eviction can't be taken back
        other-cluster        undo: that change was made to another cluster
        topic-recreated      undo: the topic was made anew since
        no-member            evict: the member has gone meanwhile
        metadata-size        the broker takes no metadata of that length
        --save-skipped can't keep a record, so nothing is reset:
          records-gone, open-transaction, beyond-log-end, retention, too-large,
          not-accepted
        * is passed by --accept CODE. What does not exist is exit code 5."""),
}
