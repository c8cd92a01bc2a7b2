#!/bin/sh
# An e-VLBI session of three stations on an emulated network: checked, rehearsed, reserved and watched (docs/planning.md).
#
#   examples/evlbi/session.sh [DIRECTORY]
#
# needs what a lab needs (longfat lab check), and longfat on the PATH. The default is a session of two minutes at a modest rate. A session of
# an hour with two scans, as in e-VLBI, on a machine that can emulate 1.6 Gb/s:
#
#   RATE=512mbit LINK=1gbit TRUNK=2500mbit SCAN_S=1800 GAP_S=60 SPARE_S=300 REHEARSAL=5min examples/evlbi/session.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
: "${RATE:=8mbit}" "${LINK:=100mbit}" "${TRUNK:=400mbit}" # of a station; of its link; of the correlator's link
: "${SCAN_S:=20}" "${GAP_S:=15}" "${SPARE_S:=10}"         # length of a scan; time between scans; from a scan's end to its deadline
: "${REHEARSAL:=10s}" "${LAB:=evlbi-session}"
: "${RUN_WITH:=}" # a command that starts the agents, as in RUN_WITH="chrt -r 1" on a busy machine
directory=${1:-$(mktemp -d)}
stations="onsala westford seshan"
mkdir -p "$directory"
cd "$directory"
directory=$(pwd) # agents get it as an argument, so it must be absolute

agents=
finish() {
    status=$?
    for agent in $agents; do kill "$agent" 2>/dev/null || true; done
    wait
    longfat lab down --lab "$LAB" >/dev/null 2>&1 || true
    [ $status = 0 ] || echo "ended with exit code $status; progress and errors are in $directory/log" >&2
}
trap finish EXIT
trap 'exit 130' INT TERM

on() { # HOST COMMAND...: runs longfat's agent commands on a host of the lab
    host=$1
    shift
    longfat lab exec --lab "$LAB" "$host" -- longfat agent "$@" --dir "$directory/$host"
}
start() {
    # All points share this machine's clock.
    sed -i 's/^clock_error = .*/clock_error = "1ms"/' "$1/agent.toml"
    # A session needs UDP for its streams, and longer tests than the default.
    sed -i -e 's/^allow_udp = false/allow_udp = true/' -e 's/^max_duration = .*/max_duration = "2h"/' "$1/limits.toml"
    # shellcheck disable=SC2086 # several arguments
    longfat lab exec --lab "$LAB" "$1" -- $RUN_WITH longfat agent run --dir "$directory/$1" >>"$1/log" 2>&1 &
    agents="$agents $!"
    until on "$1" status >/dev/null 2>&1; do sleep 0.2; done
}
at() { date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ; }

sets="--set links.kashima.both.rate=$TRUNK"
for station in $stations; do sets="$sets --set links.$station.both.rate=$LINK"; done
# shellcheck disable=SC2086 # several arguments
longfat lab up "$here/network.toml" --lab "$LAB" $sets

echo "== Four points join a mesh"
on kashima init --name kashima --address 10.0.4.1 --listen 0.0.0.0:4862 >/dev/null
start kashima
for station in $stations; do
    on kashima invite "$station" 2>>log | on "$station" join - --listen 0.0.0.0:4862 >/dev/null
    start "$station"
done

echo "== Tests of each station, as recurring ones would have run before"
for station in $stations; do
    on kashima request "$station" kashima --duration 10s --wait 2>>log
done

echo "== The rehearsal of the night before: simultaneous streams of all stations"
session() { # START: writes the description with two scans
    {
        printf 'name = "vt001"\ncorrelator = "kashima"\nstations = ["onsala", "westford", "seshan"]\nrate = "%s"\nkind = "stream"\n' "$RATE"
        scan=$1
        for _ in 1 2; do
            printf '\n[[scans]]\nstart = "%s"\nduration = "%ss"\ndeadline = "%s"\n' \
                "$(at "$scan")" "$SCAN_S" "$(at $((scan + SCAN_S + SPARE_S)))"
            scan=$((scan + SCAN_S + SPARE_S + GAP_S))
        done
    } >session.toml
}
session $(($(date +%s) + 3600))
on kashima session check "$directory/session.toml"
on kashima session rehearse "$directory/session.toml" --in 10s --duration "$REHEARSAL" 2>>log ||
    echo "The rehearsal failed, for the reasons above. The session is run all the same."

echo "== The session"
session $(($(date +%s) + 20))
cat session.toml
on kashima session reserve "$directory/session.toml" 2>>log
on kashima session watch "$directory/session.toml"
