# save all offsets and lags before a change
set -eu
kgroup describe --all-groups -o csv > "$SNAPSHOT"
