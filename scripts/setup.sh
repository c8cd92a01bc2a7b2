#!/usr/bin/env bash
# Installs the packages that building needs, and prints which it installs.
#   setup.sh         for building
#   setup.sh tests   also the tools that tests compare with or run on a lab's hosts
#   setup.sh lint    also clang-format and Python, which check formats
#   setup.sh dist    also the tools that make packages
#   setup.sh web     also npm and Chromium, which build and test the page of `longfat view`
set -eu
if ! command -v cargo >/dev/null; then
    echo "longfat needs Rust (cargo 1.95 or newer): see https://rustup.rs" >&2
    exit 4
fi
missing=()
need() { command -v "$1" >/dev/null || missing+=("${@:2}"); }
# A library counts as installed if the C compiler finds its header and its static library.
need_library() {
    local found=no
    if echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1 && [ "$(cc -print-file-name="$2" 2>/dev/null)" != "$2" ]; then
        found=yes
    fi
    [ $found = yes ] || missing+=("$3")
}
# clang 16 or newer, under the names that crates/cc/src/kernel/clang.rs tries.
need_clang() {
    local name major
    for name in ${LONGFAT_CLANG:+"$LONGFAT_CLANG"} clang clang-{16..22}; do
        major=$("$name" --version 2>/dev/null | sed -n 's/.*clang version \([0-9]*\).*/\1/p')
        if [ "${major:-0}" -ge 16 ]; then return; fi
    done
    missing+=(clang-16)
}
need cc gcc libc6-dev
# clang compiles the C files of congestion controls to eBPF; libbpf needs the libraries.
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
    need iperf iperf
    need traceroute traceroute
    need mtr mtr-tiny
    need tshark tshark
    need valgrind valgrind
    # The C++ library of UDT is the other end of UDT's tests.
    need c++ g++
    [ -e /usr/include/udt/udt.h ] || missing+=(libudt-dev libudt0)
    # The server's programs. Tests start their own clusters; this file prevents the package from creating and starting
    # one.
    no_cluster=
    if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
        missing+=(postgresql)
        no_cluster=/etc/postgresql-common/createcluster.d/longfat-tests.conf
        mkdir -p "${no_cluster%/*}" 2>/dev/null && echo 'create_main_cluster = false' >"$no_cluster" ||
            echo "setup: cannot keep the package postgresql from making a cluster" >&2
        trap 'rm -f "$no_cluster"' EXIT
    fi
    # Tests of `longfat kernel build` use a stub makefile, but the command checks for these first.
    need flex flex
    need bison bison
    need m4 m4
    need bc bc
    need xz xz-utils
    # The virtual environment of the Python package's tests, with an object store for those of the program.
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3 python3-venv)
fi
if [ "${1:-}" = lint ]; then
    need clang-format-16 clang-format-16
    need python3 python3
fi
if [ "${1:-}" = web ]; then
    # The page needs Node 20, which Debian 12 does not have: see https://nodejs.org.
    need npm npm
    need chromium chromium
fi
if [ "${1:-}" = dist ]; then
    need dpkg-deb dpkg
    need readelf binutils
    # Tools for the second architecture; without them dist.sh skips it.
    [ "$(uname -m)" = aarch64 ] || need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
fi
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; }; then
        echo "setup: cannot install them: root and apt are needed; steps that need them are skipped or fail" >&2
    fi
fi
if [ "${1:-}" = tests ]; then
    "$(dirname "$0")/test-python.sh" environment ||
        echo "setup: cannot install the packages of python/tests/requirements.txt; the tests of the Python package and of object stores are skipped" >&2
fi
