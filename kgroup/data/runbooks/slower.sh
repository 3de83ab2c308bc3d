# slow a replay down that is too much for the brokers
set -eu
export KGROUP_CONTEXT=prod
kgroup catchup stop "$GROUP" --execute
kgroup catchup resume "$GROUP" --rate 500/s --execute
