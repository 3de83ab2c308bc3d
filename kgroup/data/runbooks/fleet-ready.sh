# convert a team's groups that are Empty and ready
set -eu
export KGROUP_CONTEXT=prod KGROUP_REASON="KIP-848, team $TEAM"
kgroup migrate --regex "$TEAM-.*" --client @clients.txt --only ready
kgroup migrate --regex "$TEAM-.*" --client @clients.txt --only ready --backup "$BACKUPS/$TEAM.json" --execute
