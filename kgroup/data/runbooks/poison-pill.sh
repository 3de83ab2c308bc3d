# skip a record that the application cannot process
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON=INC-4712
kgroup peek "$GROUP" --topic "$TOPIC:3" --before 1 -n 1
kgroup reset "$GROUP" --topic "$TOPIC:3" --shift-by 1 --expect 1 --save-skipped pill.ndjson || [ $? = 9 ]
kubectl scale "deploy/$APP" --replicas=0
kgroup wait "$GROUP" --for empty --hold 15s --within 5m
kgroup reset "$GROUP" --topic "$TOPIC:3" --shift-by 1 --expect 1 --save-skipped pill.ndjson --execute
kubectl scale "deploy/$APP" --replicas=2
kgroup wait "$GROUP" --for members=2 --for lag=100 --within 10m
