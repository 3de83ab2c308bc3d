# slow a replay down that is too much for the others
set -eu
export KGROUP_CONTEXT=prod
kgroup catchup throttle "$GROUP" 500/s --yield-to lag-time=30s --execute
kgroup catchup show "$GROUP"
