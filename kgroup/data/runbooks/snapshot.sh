# save the offsets of all groups (cron)
set -eu
export KGROUP_CONTEXT=prod
file="$BACKUPS/offsets-$(date -u +%Y-%m-%d).json"
kgroup export --all-groups -o json > "$file.part"
mv "$file.part" "$file"
