# list the groups that read a topic
set -eu
kgroup describe --all-groups --topic "$TOPIC" --state
