# read the last two hours again
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON=INC-4713
kgroup reset "$GROUP" --topic "$TOPIC" --by-duration 2h || [ $? = 9 ]
kubectl scale "deploy/$APP" --replicas=0
kgroup wait "$GROUP" --for empty --hold 15s --within 5m
kgroup reset "$GROUP" --topic "$TOPIC" --by-duration 2h --execute
kubectl scale "deploy/$APP" --replicas=2
kgroup wait "$GROUP" --for members=2 --for lag=100 --within 30m
