# read offsets while their coordinator is down
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON="broker $BROKER is down"
kgroup list --coordinator "$BROKER" --from-log
kgroup export "$GROUP" --from-log > "$BACKUPS/$GROUP.csv"
kgroup reset "$GROUP-2" --create --from-group "$GROUP" --from-log --execute
