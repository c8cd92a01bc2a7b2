#!/usr/bin/env bash
# Installs what building needs and this machine has not; `setup.sh tests` also what the tests run on the lab's hosts and
# compare with. Says what it installs.
set -eu
if ! command -v cargo >/dev/null; then
    echo "longfat needs Rust (cargo 1.95 or newer): see https://rustup.rs" >&2
    exit 4
fi
missing=()
need() { command -v "$1" >/dev/null || missing+=("${@:2}"); }
need cc gcc libc6-dev
if [ "${1:-}" = tests ]; then
    need setpriv util-linux
    need pgrep procps
    need ip iproute2
    need ping iputils-ping
    need iperf3 iperf3
    need traceroute traceroute
    need mtr mtr-tiny
    need tshark tshark
fi
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; }; then
        echo "could not install them (root and apt are needed); what needs them is skipped or fails" >&2
    fi
fi
