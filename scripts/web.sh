#!/usr/bin/env bash
# The page of `longfat view`, whose sources are in web/ and which is committed as built in crates/view/page/.
#   web.sh build   builds it (Node 20 and npm)
#   web.sh check   types, and whether what is committed is what the sources give
#   web.sh test    builds the program and drives the page with Debian's Chromium; LONGFAT=PROGRAM takes one that is there
#   web.sh bench   as test, with large records: how long they take to open, and how evenly frames come
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/web"
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1
if ! command -v npm >/dev/null; then
    echo "web.sh needs Node 20 and npm" >&2
    exit 4
fi
[ -d node_modules ] && [ ! package-lock.json -nt node_modules ] || { npm ci --no-audit --no-fund --loglevel=error; touch node_modules; }
case ${1:-} in
build)
    npx --no-install vite build --logLevel warn
    ;;
check)
    npm run --silent check
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    LONGFAT_PAGE_OUT=$built npx --no-install vite build --logLevel warn
    if ! diff -rq "$built" "$root/crates/view/page"; then
        echo "crates/view/page is not what web/ gives: run scripts/web.sh build and commit it" >&2
        exit 1
    fi
    ;;
test | bench)
    if [ ! -x "${CHROMIUM:-/usr/bin/chromium}" ]; then
        echo "web.sh test needs Chromium: apt-get install chromium" >&2
        exit 4
    fi
    if [ -z "${LONGFAT:-}" ]; then
        (cd "$root" && cargo build --release --locked -p longfat)
        LONGFAT=${CARGO_TARGET_DIR:-$root/target}/release/longfat
    fi
    export LONGFAT
    [ "$1" = test ] || export LONGFAT_LARGE=1
    shift
    npx --no-install playwright test "$@"
    ;;
*)
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
    ;;
esac
