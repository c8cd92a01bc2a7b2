#!/usr/bin/env bash
# The page of `longfat view`. Its sources are in web/; the built page is committed in crates/view/page/.
#   web.sh build     builds the page (Node 20 and npm)
#   web.sh check     checks types and formatting, and that the committed page is the one that the sources give
#   web.sh test      builds the program and tests the page in Debian's Chromium; LONGFAT=PROGRAM tests a built program
#   web.sh bench     as test, with large records: the time until they are open, and the intervals between frames
#   web.sh pictures  draws the pictures of docs/view.md from fresh runs, some of them of the lab
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
    npm run --silent format:check
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    LONGFAT_PAGE_OUT=$built npx --no-install vite build --logLevel warn
    if ! diff -rq "$built" "$root/crates/view/page"; then
        echo "crates/view/page is out of date: run scripts/web.sh build and commit the result" >&2
        exit 1
    fi
    ;;
test | bench | pictures)
    if [ ! -x "${CHROMIUM:-/usr/bin/chromium}" ]; then
        echo "web.sh test needs Chromium: apt-get install chromium" >&2
        exit 4
    fi
    if [ -z "${LONGFAT:-}" ]; then
        (cd "$root" && cargo build --release --locked -p longfat)
        LONGFAT=${CARGO_TARGET_DIR:-$root/target}/release/longfat
    fi
    export LONGFAT
    case $1 in
    bench)
        export LONGFAT_LARGE=1
        ;;
    pictures)
        LONGFAT_PICTURES=$(mktemp -d)
        export LONGFAT_PICTURES
        trap 'rm -rf "$LONGFAT_PICTURES"' EXIT
        make_runs() { "$LONGFAT" --runs "$LONGFAT_PICTURES" "$@" >"$LONGFAT_PICTURES/log" || test $? -eq 3; }
        make_runs sweep "$root/scenarios/loss-law.toml" --set duration=20s \
            --over links.h1-h2.backward.delay=1ms,10ms,40ms,90ms --over links.h1-h2.forward.loss=0.00001,0.0001,0.001,0.01
        make_runs sweep socket-buffers --engine model,sim
        make_runs run "$root/scenarios/g-rttfair-short.toml" --engine sim
        make_runs run "$root/scenarios/gallery/dsl.toml" --engine sim --trace upload
        make_runs run "$root/scenarios/l8-hol.toml" --engine lab
        make_runs run "$root/scenarios/lab8.toml" --engine model,sim,lab
        set -- pictures pictures
        ;;
    esac
    shift
    npx --no-install playwright test "$@"
    ;;
*)
    sed -n '2,7s/^# //p' "$root/scripts/web.sh" >&2
    exit 2
    ;;
esac
