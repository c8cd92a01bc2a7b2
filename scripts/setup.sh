#!/usr/bin/env bash
# Installs what building and testing need and this machine has not. Says what it installs.
set -eu
if ! command -v cargo >/dev/null; then
    echo "longfat needs Rust (cargo 1.95 or newer): see https://rustup.rs" >&2
    exit 4
fi
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v setpriv >/dev/null || missing+=(util-linux)
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
