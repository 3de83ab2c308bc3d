# find out whether it was a rollout or a crash loop
set -eu
export KGROUP_CONTEXT=prod
kgroup history "$GROUP" --since 2h
kgroup doctor "$GROUP" --since 2h --fail-on warning
