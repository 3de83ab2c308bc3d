# list groups that are late or stuck; exit 8 (cron)
set -eu
export KGROUP_CONTEXT=prod
kgroup lag --topic "$TOPIC" --max-lag-time 10m --fail-on stall > "$REPORT" || { code=$?; cat "$REPORT"; exit "$code"; }
