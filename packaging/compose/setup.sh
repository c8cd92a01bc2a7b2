#!/bin/sh
# Writes the files of the three points: a creates the mesh, b and c join it, and all test each other. Runs once, before the agents.
#   POINTS: the directory of the points; ADDRESS_a, ...: HOST:PORT at which others reach a point (default NAME:4862)
set -eu
points=${POINTS:-/points}
if [ -e "$points/a/agent.toml" ]; then
    # The files of c are completed last.
    ! grep -q '^\[archive\]' "$points/c/agent.toml" 2>/dev/null || exit 0
    echo "setup: an earlier run ended early, so the files of the points are incomplete; remove them (docker compose down --volumes) and start again" >&2
    exit 1
fi

address() { eval "echo \${ADDRESS_$1:-$1:4862}"; }
# At first the point listens where b and c can reach it to join.
longfat agent init --name a --listen "${LISTEN_a:-0.0.0.0:4862}" --address "$(address a)" --dir "$points/a"
longfat agent run --dir "$points/a" &
agent=$!
sleep 2
for point in b c; do
    longfat agent invite $point --dir "$points/a" |
        longfat agent join - --listen "0.0.0.0:4862" --address "$(address $point)" --dir "$points/$point"
done
kill $agent
wait $agent || true
# b joined before c, and has not been connected since.
cp "$points/c/state/members.json" "$points/b/state/members.json"

for point in a b c; do
    {
        # Clocks of one machine agree.
        sed 's/^clock_error = "auto"/clock_error = "10ms"/' "$points/$point/agent.toml"
        echo
        echo '[http]'
        echo 'listen = "0.0.0.0:4863"'
        echo
        echo '[archive]'
        echo "postgres = \"${POSTGRES:-host=postgres dbname=longfat user=longfat password=longfat}\""
        for other in a b c; do
            [ $point = $other ] || printf '\n[[tests]]\nname = "to-%s"\nto = "%s"\nkind = "throughput"\nduration = "10s"\nevery = "5min"\n' $other $other
        done
    } >"$points/$point/agent.new"
    mv "$points/$point/agent.new" "$points/$point/agent.toml"
    longfat agent check --dir "$points/$point"
done
[ "$(id -u)" != 0 ] || chown -R 65532:65532 "$points"
