#!/usr/bin/env bash
# Made the files beside this one, with Debian's iperf3 3.12 over loopback: NAME.client.json, NAME.server.json, NAME.txt.
set -eu
cd "$(dirname "$0")"
port=52011
run() {
    local name=$1
    shift
    iperf3 -s -1 -p $port -J >"$name.server.json" &
    local server=$!
    sleep 0.3
    iperf3 -c 127.0.0.1 -p $port -J "$@" >"$name.client.json"
    wait $server
    iperf3 -s -1 -p $port >/dev/null &
    server=$!
    sleep 0.3
    iperf3 -c 127.0.0.1 -p $port -V "$@" >"$name.txt"
    wait $server
    port=$((port + 1))
}
run tcp -t 1 -i 0.5 -b 20M
run tcp-reverse -t 1 -i 0.5 -b 20M -R
run tcp-bidir -t 1 -i 0.5 -b 20M --bidir
run tcp-two -t 1 -i 0.5 -b 20M -P 2
run tcp-omit -t 1 -O 1 -i 0.3 -b 20M -w 64K -M 1000 -C reno
run tcp-bytes -n 1M -i 0.5 -b 20M --get-server-output
run udp -u -t 1 -i 0.5 -b 2M
run udp-reverse -u -t 1 -i 0.5 -b 2M -R
run udp-bidir -u -t 1 -i 0.5 -b 2M --bidir
run udp-two -u -t 1 -i 0.5 -b 2M -P 2
iperf3 -s -1 -p $port >/dev/null &
sleep 0.3
iperf3 -c 127.0.0.1 -p $port -J -n 64K -T title --extra-data extra >title.client.json
wait
# Nobody listens there.
iperf3 -c 127.0.0.1 -p 9 -J >refused.client.json || true
