# replay what a reset skipped
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON="what $CHANGE skipped"
kgroup catchup start --skipped-by "$CHANGE" --to-topic "$BACKFILL"
kgroup catchup start --skipped-by "$CHANGE" --to-topic "$BACKFILL" --execute
