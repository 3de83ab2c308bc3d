# show what more members or a restart would move
set -eu
export KGROUP_CONTEXT=prod
kgroup simulate "$GROUP" --add 2
kgroup simulate "$GROUP" --restart-rolling --static --session-timeout 60s
