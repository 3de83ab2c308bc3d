# copy a group's offsets to its twin, which replaces it
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON="$APP-green takes over"
kgroup reset "$GROUP-green" --create --from-group "$GROUP"
kubectl scale "deploy/$APP" --replicas=0
kgroup wait "$GROUP" --for empty --hold 15s --within 5m
kgroup reset "$GROUP-green" --create --from-group "$GROUP" --execute
kubectl scale "deploy/$APP-green" --replicas=2
kgroup wait "$GROUP-green" --for members=2 --for lag=100 --within 10m
