#!/usr/bin/env bash
# Installs what building needs and this machine has not; `setup.sh tests` also what the tests run on the lab's hosts and
# compare with, `setup.sh dist` what packages are made with, `setup.sh web` what the page of `longfat view` is built and tested with. Says what it installs.
set -eu
if ! command -v cargo >/dev/null; then
    echo "longfat needs Rust (cargo 1.95 or newer): see https://rustup.rs" >&2
    exit 4
fi
missing=()
need() { command -v "$1" >/dev/null || missing+=("${@:2}"); }
# A library counts as there if the C compiler finds this header and this static library.
need_library() {
    local found=no
    if echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1 && [ "$(cc -print-file-name="$2" 2>/dev/null)" != "$2" ]; then
        found=yes
    fi
    [ $found = yes ] || missing+=("$3")
}
# Some clang of version 16 or newer, as crates/cc/src/kernel/clang.rs looks for it.
need_clang() {
    local name major
    for name in ${LONGFAT_CLANG:+"$LONGFAT_CLANG"} clang clang-{16..22}; do
        major=$("$name" --version 2>/dev/null | sed -n 's/.*clang version \([0-9]*\).*/\1/p')
        if [ "${major:-0}" -ge 16 ]; then return; fi
    done
    missing+=(clang-16)
}
need cc gcc libc6-dev
# For congestion controls: their C files become eBPF, which libbpf loads.
need_clang
need make make
need pkg-config pkg-config
need_library libelf.h libelf.a libelf-dev
need_library zlib.h libz.a zlib1g-dev
if [ "${1:-}" = tests ]; then
    need setpriv util-linux
    need script bsdutils
    need sudo sudo
    need openssl openssl
    need pgrep procps
    need ip iproute2
    need ethtool ethtool
    need ping iputils-ping
    need iperf3 iperf3
    need traceroute traceroute
    need mtr mtr-tiny
    need tshark tshark
    need valgrind valgrind
    # Builds of kernels are tested with a makefile that is none; longfat asks for these all the same.
    need flex flex
    need bison bison
    need m4 m4
    need bc bc
    need xz xz-utils
fi
if [ "${1:-}" = web ]; then
    # Building the page takes Node 20, which Debian 12 has not: see https://nodejs.org.
    need npm npm
    need chromium chromium
fi
if [ "${1:-}" = dist ]; then
    need dpkg-deb dpkg
    need readelf binutils
    # Another architecture beside; without it that one is left out.
    [ "$(uname -m)" = aarch64 ] || need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
fi
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; }; then
        echo "could not install them (root and apt are needed); what needs them is skipped or fails" >&2
    fi
fi
