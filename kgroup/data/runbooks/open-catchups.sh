# list catch-ups that are not finished; exit 8 (cron)
set -eu
export KGROUP_CONTEXT=prod
kgroup catchup list -o csv > "$PLANS"
if grep -E '^cu-.*,(planned|releasing|released|cancelling),' "$PLANS"; then exit 8; fi
