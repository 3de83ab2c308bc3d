# move one group to the consumer protocol
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON="KIP-848"
kgroup migrate "$GROUP" --client "$CLIENT" --wait-empty
kgroup migrate "$GROUP" --client-config "$APP.properties" --write "$OVERLAY/app.properties" --wait-empty
kubectl scale "deploy/$APP" --replicas=0
kgroup migrate "$GROUP" --client "$CLIENT" --wait-empty --within 5m --execute
kubectl apply -k "$OVERLAY"
kubectl scale "deploy/$APP" --replicas=2
kgroup wait "$GROUP" --for type=consumer --for stable --for members=2 --for lag=100 --within 10m
