# reset a group that an autoscaler starts again
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON=INC-4714
kgroup reset "$GROUP" --topic "$TOPIC" --to-latest || [ $? = 9 ]
trap 'kubectl annotate scaledobject "$APP" autoscaling.keda.sh/paused-replicas-' EXIT
kubectl annotate scaledobject "$APP" --overwrite autoscaling.keda.sh/paused-replicas=0
kgroup wait "$GROUP" --for empty --hold 15s --within 5m
kgroup reset "$GROUP" --topic "$TOPIC" --to-latest --execute
