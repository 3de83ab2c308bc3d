# after a crash: start at the log end, then replay the gap
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON=INC-4711
kgroup catchup start "$GROUP" --to-topic "$BACKFILL" --report "$REPORT" || [ $? = 9 ]
kubectl scale "deploy/$APP" --replicas=0
kgroup wait "$GROUP" --for empty --hold 15s --within 5m
kgroup catchup start "$GROUP" --release-only --execute
kubectl scale "deploy/$APP" --replicas=2
kgroup wait "$GROUP" --for members=2 --for lag=100 --within 10m
kgroup catchup resume "$GROUP" --to-topic "$BACKFILL" --report "$REPORT" --execute
