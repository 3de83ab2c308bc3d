"""The texts of ``kgroup help TOPIC``: what is not about one verb alone."""

from __future__ import annotations

import textwrap

from kgroup.cli.rights import RIGHTS
from kgroup.support.errors import EXIT_MEANINGS


def _rights() -> str:
    def part(text: str, word: str) -> list[str]:
        first = f"  {word:<6}"
        return textwrap.wrap(text, 72, initial_indent=first, subsequent_indent=" " * 8, break_on_hyphens=False)

    lines = [
        "G is the group, T are its topics. READ, WRITE and DELETE imply DESCRIBE.",
        "A plan needs what its execution needs, and names all that is missing with",
        "the kafka-acls.sh lines (exit code 4). Brokers log each request that they",
        "deny: looking with few rights fills the authorizer's log.",
    ]
    for verbs, least, more in RIGHTS:
        lines += [verbs, *part(least, "needs"), *(part(more, "more") if more else ())]
    return "\n".join(lines)


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
        -o prometheus kgroup lag alone: metrics under klag-exporter's names, to
                      stdout or, for a textfile collector, --metrics-file FILE
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
          is anybody late, or stuck: a check for cron (exit 8)
          was that a rollout or a crash loop; simulate before scaling
          rescue offsets while their coordinator is down
          skip a poison pill
          replay the last two hours
          copy a group's offsets to its blue/green twin
          snapshot all groups nightly, and put one back to its snapshot
          reset under an autoscaler
          drop groups that were idle for 30 days
          move one group to the consumer protocol, and a fleet in a week
          after a crash: the head first, the gap beside it, by kgroup catchup
          replay what a reset skipped; slow a replay down; who is owed what
          a Kubernetes Job that resets, without root and without $HOME
        How they read:
          set -eu; KGROUP_CONTEXT and KGROUP_REASON exported; exit codes gate
          kgroup reset G ... || [ $? = 6 ]   rehearsal: 6 is "once it is empty"
          kgroup wait G --for empty --hold 15s --within 5m
          kgroup reset G ... --expect 1 --execute
          kgroup wait G --for members=6 --for lag=100 --within 10m"""),
    "catch-up": textwrap.dedent("""\
        A consumer crashed at 100, had committed 70, and the log is at 120.
        kgroup catchup start G ... --execute lets its group start at 120 at once,
        and replays [70, 120) beside it. Run again, nothing is lost:
          start     writes what is owed to a ledger, moves the group, replays
          resume    goes on, on any machine, after ctrl-C, a crash or stop
          cancel    moves the group back; it handles the gap itself
          list, show, and describe (OWED)   what is owed, and until when
        The gap is NOT ordered against the head: the group handles new records
        while older ones of the same key are still on their way.
        The group must be Empty for a moment. Pods that restart by themselves
        never are: scale them to zero, or pause what starts them, first.

        WHERE TO      DELIVERED BY           GUARANTEE
        --to-topic    transactions           exactly once
        --to-files    a file a chunk         exactly once
        --to-command  acknowledged records   at least once; what may have come
        --to-python   acknowledged records   twice is counted
        --to-spark    one append             at least once: broken off, all of
                                             it comes again
        With --latest-per-key Spark reads the whole gap before anything is
        delivered, and again at each resume; the guarantees are the same.

        PROVED and exit code 0: every record of the gap was read, and delivered,
        filtered out or dead-lettered. Else exit code 8, with the offsets.
        Rights: READ on group, topics, __consumer_offsets; WRITE on transactional
        ids kgroup-catchup-*; READ, WRITE, DESCRIBE_CONFIGS on the ledger
        _kgroup_ledger (CREATE, the first time); WRITE, DESCRIBE_CONFIGS on the
        topic that the copies go to. Spark and Java:
          pip install 'kgroup[catchup]'   and Java 17 or newer"""),
    "rights": _rights(),
    "refusals": textwrap.dedent("""\
        Exit code 6; the code is in brackets, and in json as errors[].code.
        not-empty            members are in the group: stop them, --wait-empty
        subscribed           a live member reads the topic: stop it, --wait-empty
        active-committer *   Empty, but somebody goes on committing
        clock-skew *         delete --idle-for: the brokers' clock says otherwise
        foreign-owner *      Connect, Streams, Flink, Spark; share groups (never *)
        hidden-commits *     delete: it has, or may have, commits that you can't see
        blocked              migrate: a check says why, and what to do
        broker-too-old       the brokers are older than Kafka 3.0: upgrade them
        unsupported          a broker does not support a request of kgroup
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
        newer-journal        undo: a newer version of kgroup made that change
        locked               another kgroup of this machine changes something
        not-yours            undo: somebody else's change; name its id
        not-undoable         undo: an eviction can't be taken back
        other-cluster        undo: that change was made to another cluster
        topic-recreated      undo: the topic was made anew since
        no-member            evict: the member has gone meanwhile
        metadata-size        the broker takes no metadata of that length
        simulate has no settled assignment to start from, or no assignor:
          rebalancing, no-members, members-hidden, too-few-members,
          unknown-assignor
        --save-skipped can't keep a record, so nothing is reset:
          records-gone, open-transaction, beyond-log-end, retention, too-large,
          not-accepted
        kgroup catchup:
          skip *               --skip-before leaves offsets to nobody
          not-in-ledger *      the ledger does not have a release of the group;
                               start prints the command that delivers it
          twice *              cancel: the group would handle records twice;
                               start: another open plan owes these ranges too
          retention            start: records go before they could be read
          above-end, hanging-transaction
                               start: the commit lies beyond the log's end; an
                               open transaction keeps the end back
          plan-overlaps, plan-exists, fenced
                               another plan has these offsets
          went-on, cancelling, closed, delivered
                               the plan has come too far for this
          history-unread       was it released? --assume released|unreleased
          superseded           another run has taken the plan over
          plan-open            prune: it is not finished; start: go on with it
          other-cluster        the plan is another cluster's, mirrored
          no-sink, sink-set, sink
                               where records go: not said, or does not fit
          no-ledger, ledger-unfit, ledger-newer
                               the ledger can't be made, kept or understood
          no-pyspark, no-java, no-master, spark-workers
                               Spark can't run, or its workers lack something
          foreign-file         --to-files: a file is in the way
          transaction-limit, transaction-timeout
                               the broker ends transactions too soon
        * is passed by --accept CODE. What does not exist is exit code 5."""),
}
