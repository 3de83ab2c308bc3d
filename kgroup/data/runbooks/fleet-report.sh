# check all groups for the consumer protocol
set -eu
export KGROUP_CONTEXT=prod
kgroup migrate --all-groups --client @clients.txt --wait-empty -o csv > "$REPORT" || [ $? = 6 ]
kgroup migrate --all-groups --client @clients.txt --wait-empty || [ $? = 6 ]
