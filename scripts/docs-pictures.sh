#!/usr/bin/env bash
# Redraws the pictures in docs/ from fresh runs; $1 is the program. Those of congestion controls need root.
set -eu
longfat=$1
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
# The ids of a scenario's runs, oldest first.
ids() { "$longfat" --runs "$runs" ls --json | grep -o '"id": "[^"]*"' | cut -d'"' -f4 | grep -- "-lab" | sort; }
draw() { "$longfat" --runs "$runs" plot $(ids) "$@"; rm -rf "${runs:?}"/*; }

# Exit code 3 means that a published figure was missed, as on a busy machine; the picture is still drawn.
"$longfat" --runs "$runs" run scenarios/lab8.toml --engine lab >/dev/null || test $? -eq 3
draw --metric goodput,cwnd,rtt -o docs/lab8.svg
"$longfat" --runs "$runs" run scenarios/l8-hol.toml >/dev/null
draw --metric link_rate,goodput,inflight --from 4.9s --to 5.3s -o docs/l8-hol.svg
"$longfat" --runs "$runs" run scenarios/areas.toml >/dev/null
draw --metric goodput,rtt --against inflight -o docs/areas.svg

# The kernel's own congestion control beside longfat's C file of the same name.
for cc in reno cubic bbr; do
    "$longfat" --runs "$runs" run scenarios/cc-differential.toml --variant "$cc-kernel,$cc-file" --set repeat=1 >/dev/null
    draw --metric cwnd,goodput,rtt -o "docs/cc-differential-$cc.svg"
done
# Two round-trip times without and with Grid DT.
"$longfat" --runs "$runs" run scenarios/g-rttfair-short.toml >/dev/null
draw --metric goodput,cwnd -o docs/griddt-rtt.svg
# Published experiments in the simulator: the windows behind a small and a large queue, and two flows over 7000 s.
simulated() { "$longfat" --runs "$runs" ls --json | grep -o '"id": "[^"]*"' | cut -d'"' -f4 | grep -- "-sim" | sort; }
for queue in 100p 1000p; do
    "$longfat" --runs "$runs" run scenarios/h-lab.toml --engine sim --variant "newreno-$queue,highspeed-$queue,bic-$queue,fast-$queue" >/dev/null
    "$longfat" --runs "$runs" plot $(simulated) --metric cwnd,goodput -o "docs/h-lab-$queue.svg"; rm -rf "${runs:?}"/*
done
for pair in rttfair mtufair; do
    "$longfat" --runs "$runs" run "scenarios/g-$pair.toml" --engine sim --variant reno,griddt >/dev/null || test $? -eq 3
    "$longfat" --runs "$runs" plot $(simulated) --metric goodput,cwnd -o "docs/g-$pair.svg"; rm -rf "${runs:?}"/*
done
# The G pairs over the queue and over a random loss, at a tenth of rate and time (windows and recovery are a tenth as well).
tenth="--set duration=700s --set sample=100ms --set links.bottleneck.forward.rate=100mbit --set links.cern1-geneva.forward.rate=100mbit"
tenth="$tenth --variant reno,griddt --set links.cern2-geneva.forward.rate=100mbit --set hosts.*.nic.tx_queue=10p"
for flow in rtt181 mtu3000 mtu9000; do
    file="scenarios/g-${flow%%[0-9]*}fair.toml"
    set -f # keeps the shell from expanding hosts.*
    "$longfat" --runs "$runs" sweep "$file" $tenth --metric "flows.$flow.goodput" -o "docs/g-queue-$flow.svg" \
        --over links.bottleneck.forward.queue=40kB,54kB,64kB,76kB,90kB,128kB,250kB >/dev/null
    "$longfat" --runs "$runs" sweep "$file" $tenth --set links.bottleneck.forward.queue=76kB --metric "flows.$flow.goodput" \
        --over links.bottleneck.forward.loss=0.0,0.000004,0.00002,0.00005,0.0001,0.0002 -o "docs/g-loss-$flow.svg" >/dev/null
    set +f
    rm -rf "${runs:?}"/*
done
# The distribution of goodput over repeats.
"$longfat" scenario new --rate 50mbit --rtt 20ms --duration 5s -o "$runs/path.toml" >/dev/null
"$longfat" --runs "$runs/box" sweep "$runs/path.toml" --over flows.bulk.cc=cubic,reno,bbr \
    --over links.path.forward.loss=0.01%,0.1%,1% --repeat 8 >/dev/null
"$longfat" --runs "$runs/box" plot path/ --box flows.bulk.goodput -o docs/box.svg
rm -rf "${runs:?}"/*
# The simulator against runs of the real kernel.
cargo run --quiet --release --locked -p longfat-view --example reference_pictures -- docs
