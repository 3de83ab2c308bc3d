# delete groups that were idle for 30 days
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON="idle for 30 days"
kgroup delete --regex "$TEAM-.*" --in-state Empty --idle-for 30d
kgroup delete --regex "$TEAM-.*" --in-state Empty --idle-for 30d --backup "$BACKUPS/idle.json" --execute
