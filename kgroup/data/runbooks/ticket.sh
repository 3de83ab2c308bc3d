# print a group's state for a ticket
set -eu
kgroup describe "$GROUP" -o markdown
