# Completion for bash. Made by: kgroup completion bash
# Load it with: eval "$(kgroup completion bash)"

# Whether these words are the full name of a verb.
_kgroup_is_verb() {
    case $1 in
        list) return 0 ;;
        describe) return 0 ;;
        lag) return 0 ;;
        doctor) return 0 ;;
        history) return 0 ;;
        wait) return 0 ;;
        simulate) return 0 ;;
        export) return 0 ;;
        reset) return 0 ;;
        undo) return 0 ;;
        migrate) return 0 ;;
        evict) return 0 ;;
        delete) return 0 ;;
        delete-offsets) return 0 ;;
        catchup) return 0 ;;
        'catchup start') return 0 ;;
        'catchup list') return 0 ;;
        'catchup show') return 0 ;;
        'catchup stop') return 0 ;;
        'catchup resume') return 0 ;;
        'catchup cancel') return 0 ;;
        'catchup prune') return 0 ;;
        context) return 0 ;;
        'context list') return 0 ;;
        'context use') return 0 ;;
        'context show') return 0 ;;
        sandbox) return 0 ;;
        'sandbox up') return 0 ;;
        'sandbox status') return 0 ;;
        'sandbox down') return 0 ;;
        'sandbox demo') return 0 ;;
        completion) return 0 ;;
        help) return 0 ;;
        *) return 1 ;;
    esac
}

# The verbs below a verb.
_kgroup_verbs() {
    case $1 in
        '') words=(list describe lag doctor history wait simulate export reset undo migrate evict delete delete-offsets catchup context sandbox completion help) ;;
        catchup) words=(start list show stop resume cancel prune) ;;
        context) words=(list use show) ;;
        sandbox) words=(up status down demo) ;;
    esac
}

# The options of a verb.
_kgroup_options() {
    case $1 in
        '') words=(--version -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        list) words=(--group -A --all-groups --regex --in-state --type --topic --expect --coordinator --log-budget --log-bytes --from-log -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        describe) words=(--group -A --all-groups --regex --in-state --type --topic --expect --members --offsets --state --verbose --no-generation --generation-budget -w --watch --every --log-budget --log-bytes --from-log -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        lag) words=(--group -A --all-groups --regex --in-state --type --topic --expect --by --sort --top --isolation --no-time --log-budget --metrics-file --max-lag --max-lag-time --fail-on -w --watch --every -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        doctor) words=(--explain --rules --group -A --all-groups --regex --in-state --type --topic --expect --cluster --fail-on --since --log-budget --verbose -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        history) words=(--group -A --all-groups --regex --in-state --type --topic --expect --since --until --log-budget --commits -f --follow --limit --verbose -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        wait) words=(--group -A --all-groups --regex --in-state --type --topic --expect --for --within --hold --new -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        simulate) words=(--group -A --all-groups --regex --in-state --type --topic --expect --add --remove --kill --restart-rolling --static --partitions --assignor --session-timeout --restart-time --rebalance-time --from-file -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        export) words=(--group -A --all-groups --regex --in-state --type --topic --expect --as-of --log-budget --log-bytes --from-log -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        reset) words=(--group -A --all-groups --regex --in-state --type --to-earliest --to-latest --to-current --to-offset --shift-by --to-datetime --by-duration --from-file --from-group --topic --all-topics --only --create --save-skipped --verbose --execute --dry-run --expect --accept --reason --partial --wait-empty --within --backup --log-budget --log-bytes --from-log -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        undo) words=(--verbose --execute --dry-run --expect --accept --reason --partial --wait-empty --within --backup --as-of --log-budget --log-bytes -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        migrate) words=(--only -w --watch --verbose --group -A --all-groups --regex --in-state --type --execute --dry-run --expect --accept --reason --partial --wait-empty --within --backup --protocol --session-timeout --heartbeat-interval --client --client-config --write -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        evict) words=(--instance --member --all-members --execute --dry-run --expect --accept --reason -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        delete) words=(--idle-for --verbose --group -A --all-groups --regex --in-state --type --execute --dry-run --expect --accept --reason --partial --wait-empty --within --backup -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        delete-offsets) words=(--topic --verbose --group -A --all-groups --regex --in-state --type --execute --dry-run --expect --accept --reason --partial --wait-empty --within --backup -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        catchup) words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'catchup start') words=(--release-only --verbose --to-topic --timestamps --partitions --to-files --format --to-command --ack --value-format --to-python --to-spark --option --where --latest-per-key --topic --range --skipped-by --missing --skip-before --until --order --lanes --rate --retries --backoff --handler-timeout --dead-letter-topic --master --conf --parallelism -v --spark-log --report --execute --dry-run --expect --accept --partial --wait-empty --within --reason --ledger-topic -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'catchup list') words=(--verbose --ledger-topic -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'catchup show') words=(-w --watch --verbose --ledger-topic -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'catchup stop') words=(--execute --dry-run --ledger-topic -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'catchup resume') words=(--release-only --assume --to-topic --timestamps --partitions --to-files --format --to-command --ack --value-format --to-python --to-spark --option --where --latest-per-key --order --lanes --rate --retries --backoff --handler-timeout --dead-letter-topic --master --conf --parallelism -v --spark-log --report --execute --dry-run --ledger-topic -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'catchup cancel') words=(--accept --give-up --assume --execute --dry-run --ledger-topic -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'catchup prune') words=(--execute --dry-run --ledger-topic -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        context) words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'context list') words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'context use') words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'context show') words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        sandbox) words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'sandbox up') words=(--brokers --port --jars --set -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'sandbox status') words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'sandbox down') words=(--wipe -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        'sandbox demo') words=(--crash-only -b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        completion) words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
        help) words=(-b --bootstrap-server --command-config -X --property --context --timeout -o --output --debug -h --help) ;;
    esac
}

# What an option of a verb takes.
_kgroup_takes() {
    case $1:$2 in
        *:-b|*:--bootstrap-server) takes=(text) ;;
        *:--command-config) takes=(files) ;;
        *:-X|*:--property) takes=(text) ;;
        *:--context) takes=(contexts) ;;
        *:--timeout) takes=(text) ;;
        *:-o|*:--output) takes=(words table wide json yaml csv markdown) ;;
        *:--debug) takes=(files) ;;
        *:--group) takes=(groups) ;;
        *:--regex) takes=(text) ;;
        *:--in-state) takes=(words Empty PreparingRebalance CompletingRebalance Stable Assigning Reconciling NotReady Dead) ;;
        *:--type) takes=(words classic consumer share streams) ;;
        list:--topic|describe:--topic|lag:--topic|doctor:--topic|wait:--topic|simulate:--topic|export:--topic) takes=(topics) ;;
        history:--topic|reset:--topic|delete-offsets:--topic|'catchup start':--topic) takes=(topics) ;;
        *:--expect) takes=(text) ;;
        *:--coordinator) takes=(text) ;;
        *:--log-budget) takes=(text) ;;
        *:--log-bytes) takes=(text) ;;
        *:--generation-budget) takes=(text) ;;
        *:--every) takes=(text) ;;
        *:--by) takes=(words partition topic group) ;;
        *:--sort) takes=(words status lag time trend name) ;;
        *:--top) takes=(text) ;;
        *:--isolation) takes=(words read_uncommitted read_committed) ;;
        *:--metrics-file) takes=(files) ;;
        *:--max-lag) takes=(text) ;;
        *:--max-lag-time) takes=(text) ;;
        lag:--fail-on) takes=(words warn rewind stall stop) ;;
        doctor:--fail-on) takes=(words info warning critical) ;;
        *:--explain) takes=(words offsets-topic-replication hanging-offsets-transaction coordinator-load out-of-range topic-recreated hanging-transaction lso-stuck stalled-commits rebalance-storm offsets-expire offsets-expire-in-use never-read mixed-subscriptions topic-gone hot-partition skewed-lag skewed-partitions idle-members eager-assignor not-static session-restart static-session heartbeat-interval poll-interval idle-commits ready-to-migrate) ;;
        doctor:--since) takes=(text) ;;
        history:--since) takes=(text) ;;
        history:--until) takes=(text) ;;
        'catchup start':--until) takes=(text) ;;
        *:--limit) takes=(text) ;;
        *:--for) takes=(words empty stable 'lag=' 'lag-time=' 'members=' 'type=consumer') ;;
        *:--within) takes=(text) ;;
        *:--hold) takes=(text) ;;
        *:--add) takes=(text) ;;
        *:--remove) takes=(text) ;;
        *:--kill) takes=(text) ;;
        simulate:--partitions) takes=(text) ;;
        'catchup start':--partitions|'catchup resume':--partitions) takes=(words keep key) ;;
        *:--assignor) takes=(words range roundrobin sticky cooperative-sticky uniform) ;;
        *:--session-timeout) takes=(text) ;;
        *:--restart-time) takes=(text) ;;
        *:--rebalance-time) takes=(text) ;;
        *:--from-file) takes=(files) ;;
        *:--as-of) takes=(text) ;;
        *:--to-offset) takes=(text) ;;
        *:--shift-by) takes=(text) ;;
        *:--to-datetime) takes=(text) ;;
        *:--by-duration) takes=(text) ;;
        *:--from-group) takes=(groups) ;;
        reset:--only) takes=(words out-of-range) ;;
        migrate:--only) takes=(words ready) ;;
        *:--save-skipped) takes=(files) ;;
        reset:--accept|undo:--accept|migrate:--accept|evict:--accept|delete:--accept|delete-offsets:--accept) takes=(words active-committer clock-skew foreign-owner hidden-commits moved-since) ;;
        'catchup start':--accept) takes=(words active-committer foreign-owner not-in-ledger skip twice) ;;
        'catchup cancel':--accept) takes=(text) ;;
        *:--reason) takes=(text) ;;
        *:--backup) takes=(files) ;;
        *:--protocol) takes=(words consumer classic) ;;
        *:--heartbeat-interval) takes=(text) ;;
        *:--client) takes=(text) ;;
        *:--client-config) takes=(files) ;;
        *:--write) takes=(files) ;;
        *:--instance) takes=(text) ;;
        *:--member) takes=(text) ;;
        *:--idle-for) takes=(text) ;;
        *:--to-topic) takes=(topics) ;;
        *:--timestamps) takes=(words keep now) ;;
        *:--to-files) takes=(directories) ;;
        *:--format) takes=(words parquet json) ;;
        *:--to-command) takes=(text) ;;
        *:--ack) takes=(words exit line) ;;
        *:--value-format) takes=(words base64 text json) ;;
        *:--to-python) takes=(text) ;;
        *:--to-spark) takes=(text) ;;
        *:--option) takes=(text) ;;
        *:--where) takes=(text) ;;
        *:--range) takes=(topics) ;;
        *:--skipped-by) takes=(text) ;;
        *:--missing) takes=(words earliest latest leave) ;;
        *:--skip-before) takes=(text) ;;
        *:--order) takes=(words partition key none) ;;
        *:--lanes) takes=(text) ;;
        *:--rate) takes=(text) ;;
        *:--retries) takes=(text) ;;
        *:--backoff) takes=(text) ;;
        *:--handler-timeout) takes=(text) ;;
        *:--dead-letter-topic) takes=(topics) ;;
        *:--master) takes=(text) ;;
        *:--conf) takes=(text) ;;
        *:--parallelism) takes=(text) ;;
        *:--report) takes=(files) ;;
        *:--ledger-topic) takes=(topics) ;;
        *:--assume) takes=(text) ;;
        *:--brokers) takes=(words 1 3) ;;
        *:--port) takes=(text) ;;
        *:--jars) takes=(directories) ;;
        *:--set) takes=(text) ;;
        *) return 1 ;;
    esac
}

# What the argument at a place is.
_kgroup_argument() {
    case $1:$2 in
        list:*) takes=(groups) ;;
        describe:*) takes=(groups) ;;
        lag:*) takes=(groups) ;;
        doctor:*) takes=(groups) ;;
        history:*) takes=(groups) ;;
        wait:*) takes=(groups) ;;
        simulate:*) takes=(groups) ;;
        export:*) takes=(groups) ;;
        reset:*) takes=(groups) ;;
        undo:1) takes=(groups) ;;
        migrate:*) takes=(groups) ;;
        evict:1) takes=(groups) ;;
        delete:*) takes=(groups) ;;
        delete-offsets:*) takes=(groups) ;;
        'catchup start':1) takes=(groups) ;;
        'catchup list':*) takes=(groups) ;;
        'catchup show':1) takes=(groups) ;;
        'catchup stop':1) takes=(groups) ;;
        'catchup resume':1) takes=(groups) ;;
        'catchup cancel':1) takes=(groups) ;;
        'catchup prune':*) takes=(text) ;;
        'context use':1) takes=(contexts) ;;
        'context show':1) takes=(contexts) ;;
        completion:1) takes=(words bash zsh fish) ;;
        help:1) takes=(words exit-codes output connection runbooks catch-up rights refusals) ;;
        *) return 1 ;;
    esac
}

# The names of a kind, as they have to be inserted. They are text to show and never run or expanded.
_kgroup_names() {
    local name names
    names=$(KGROUP_LINE=$line "$kgroup" __complete "$1" bash "$COMP_WORDBREAKS" 2>/dev/null </dev/null)
    while IFS= read -r name; do
        [[ $name ]] && COMPREPLY+=("$name")
    done <<< "$names"
}

# What may stand at the cursor: of a kind, or one of the words.
_kgroup_offer() {
    local kind=$1 word
    shift
    case $kind in
        words)
            # The line editor leaves alone what stands before the last of these in the word.
            local breaks=${COMP_WORDBREAKS//[^=:]/} kept=''
            [[ $breaks ]] && kept=${before}${cur} && kept=${kept%"${kept##*[$breaks]}"}
            for word in "$@"; do
                [[ $word == "$cur"* ]] || continue
                [[ $word == *= ]] && compopt -o nospace 2>/dev/null
                word=$before$word
                COMPREPLY+=("${word#"$kept"}")
            done ;;
        groups|topics|contexts) _kgroup_names "$kind" ;;
        files) compopt -o default 2>/dev/null ;;
        directories) compopt -o dirnames 2>/dev/null ;;
    esac
}

_kgroup() {
    local IFS=$' \t\n'
    local kgroup=${1/#\~/$HOME} line=${COMP_LINE:0:COMP_POINT}
    local rest=$line trimmed word i verb='' count=1 skip='' only_arguments='' before='' cur
    local -a typed=() words=() takes=()
    type -P "$kgroup" >/dev/null || kgroup=kgroup
    COMPREPLY=()

    # COMP_WORDS is cut at : and = too; what is not separated by blanks is one word.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        trimmed=${rest#"${rest%%[![:space:]]*}"}
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$trimmed
        if [[ $i == 0 || $trimmed != "$rest" ]]; then
            typed+=("$word")
        else
            typed[${#typed[@]}-1]+=$word
        fi
        rest=${trimmed#"$word"}
    done

    for ((i = 1; i < ${#typed[@]} - 1; i++)); do
        word=${typed[i]}
        if [[ $skip ]]; then
            skip=''
        elif [[ $only_arguments ]]; then
            ((count++))
        elif [[ $word == -- ]]; then
            only_arguments=yes
        elif [[ $word == -* ]]; then
            _kgroup_takes "$verb" "$word" && skip=yes
        elif _kgroup_is_verb "${verb:+$verb }$word"; then
            verb=${verb:+$verb }$word
        else
            ((count++))
        fi
    done

    cur=${typed[${#typed[@]}-1]}
    if [[ $skip ]]; then
        _kgroup_offer "${takes[@]}"
    elif [[ ! $only_arguments && $cur == --*=* ]]; then
        if _kgroup_takes "$verb" "${cur%%=*}"; then
            before=${cur%%=*}=
            cur=${cur#*=}
            _kgroup_offer "${takes[@]}"
        fi
    elif [[ ! $only_arguments && $cur == -* ]]; then
        _kgroup_options "$verb"
        _kgroup_offer words "${words[@]}"
    else
        _kgroup_verbs "$verb"
        [[ ${#words[@]} == 0 ]] || _kgroup_offer words "${words[@]}"
        _kgroup_argument "$verb" "$count" && _kgroup_offer "${takes[@]}"
    fi
}

complete -F _kgroup kgroup
