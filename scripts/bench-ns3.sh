#!/usr/bin/env bash
# Compares the simulator with ns-3: data packets per CPU second of both, and the ratio. Needs ns-3 (apt-get install
# libns3-dev g++) and two to four minutes. ns-3 is limited to 6 GB and three minutes for each case.
set -eu
cd "$(dirname "$0")/.."
if ! echo '#include <ns3/core-module.h>' | g++ -E -x c++ - >/dev/null 2>&1; then
    echo "skipped: ns-3 is not installed (Debian: apt-get install libns3-dev g++)"
    exit 0
fi
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/ns3
mkdir -p "$target"
if [ benches/ns3/bench.cc -nt "$target/bench" ]; then
    # pkg-config would require libraries that these modules do not need.
    g++ -O2 -o "$target/bench" benches/ns3/bench.cc -Wl,--allow-shlib-undefined \
        -lns3-applications -lns3-internet -lns3-point-to-point -lns3-traffic-control -lns3-network -lns3-core
fi
# Prints the value after a name in a line of names and values.
field() { awk -v name="$1" '{ for (i = 1; i < NF; i++) if ($i == name) print $(i + 1) }'; }
compare() { # what, our case, its state, ns-3's arguments
    local theirs ours
    theirs=$(ulimit -v 6000000 && timeout 180 "$target/bench" "${@:4}") || {
        echo "$1: ns-3 did not finish"
        return
    }
    ours=$(cargo bench --quiet --locked -p longfat-sim --bench tcp -- case "$2")
    awk -v what="$1" \
        -v ours="$(echo "$ours" | field "$3_packets")" -v ours_s="$(echo "$ours" | field "$3_cpu_s")" \
        -v theirs="$(echo "$theirs" | field packets)" -v theirs_s="$(echo "$theirs" | field cpu_s)" 'BEGIN {
            if (theirs_s <= 0 || ours_s <= 0) { print what ": nothing was measured"; exit }
            a = ours / ours_s; b = theirs / theirs_s
            printf "%-52s longfat %10.0f   ns-3 %8.0f packets/CPU s   %6.0f times\n", what, a, b, a / b
        }'
}
# ns-3's arguments: segment bytes, RTT ms, queue packets, buffer bytes, state, maximum virtual and CPU seconds.
compare "cubic, 1 Gb/s, 117 ms, MSS 8960, loss-free" loss-free open 8960 117 100000 14625000 open 20 8
compare "  the same without super-packets" loss-free-single open 8960 117 100000 14625000 open 20 8
compare "MSS 1460, recovery from the overshoot" recovery recovery 1460 100 4000 100000000 recovery 30 10
compare "  the same without super-packets" recovery-single recovery 1460 100 4000 100000000 recovery 30 10
