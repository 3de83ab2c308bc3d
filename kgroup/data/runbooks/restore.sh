# put a group back to a snapshot
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON="back to the snapshot of $DAY"
kgroup reset "$GROUP" --from-file "$BACKUPS/offsets-$DAY.json" || [ $? = 9 ]
kubectl scale "deploy/$APP" --replicas=0
kgroup wait "$GROUP" --for empty --hold 15s --within 5m
kgroup reset "$GROUP" --from-file "$BACKUPS/offsets-$DAY.json" --execute
kubectl scale "deploy/$APP" --replicas=2
