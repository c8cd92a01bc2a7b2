#!/usr/bin/env bash
# Tests a packaged program: it needs no library, it simulates, and its page serves the simulator for browsers. Without privileges.
#   test-program.sh PROGRAM [MODULE]   MODULE: the playground.wasm that the program was built with; without it, it must have none
set -eu
program=$(realpath "$1") module=${2:-}
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
fail() { echo "test-program: $program: $*" >&2; exit 1; }
# Ignores the configuration of the user.
export XDG_CONFIG_HOME=$work/none
unset LONGFAT_RUNS

needed=$(readelf -d "$program" | grep NEEDED || true)
[ -z "$needed" ] || fail "it needs libraries: $needed"
"$program" --runs "$work/runs" run --rate 100mbit --rtt 20ms --duration 1s --engine sim --json >"$work/run" 2>"$work/errors" ||
    fail "it does not simulate: $(cat "$work/errors")"
: >"$work/view"
"$program" --runs "$work/runs" view --no-open --json >"$work/view" 2>"$work/errors" &
server=$!
url=
# A minute: starts are slow on busy machines.
for _ in {1..600}; do
    url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' "$work/view")
    [ -z "$url" ] || break
    kill -0 "$server" 2>/dev/null || fail "its page ended: $(cat "$work/errors")"
    sleep 0.1
done
[ -n "$url" ] || fail "it printed no address of its page within a minute"
authority=${url#http://}
authority=${authority%%/*}

# Writes the response to a GET request, with its head, to the file.
get() {
    local path=$1 cookie=$2 file=$3
    exec 3<>"/dev/tcp/${authority%:*}/${authority##*:}"
    printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n' "$path" "$authority" "${cookie:+Cookie: $cookie$'\r\n'}" >&3
    cat <&3 >"$file"
    exec 3>&-
}

get "${url#"http://$authority"}" "" "$work/welcome"
cookie=$(sed -n 's/^[Ss]et-[Cc]ookie: \([^;]*\);.*/\1/p' "$work/welcome")
[ -n "$cookie" ] || fail "its page refused the printed address: $(head -1 "$work/welcome")"
get /playground.wasm "$cookie" "$work/response"
status=$(head -1 "$work/response" | cut -d' ' -f2)
if [ -n "$module" ]; then
    [ "$status" = 200 ] || fail "/playground.wasm has status $status, not 200"
    # The head ends with an empty line.
    LC_ALL=C sed '1,/^\r$/d' "$work/response" | cmp - "$module" || fail "/playground.wasm differs from $module"
else
    [ "$status" = 404 ] || fail "/playground.wasm has status $status, not 404"
fi
# Programs in the background of a script ignore SIGINT.
kill -TERM "$server"
wait "$server" || fail "its page ended with exit code $?"
server=
echo "test-program: $program simulates, and serves its page ${module:+with}${module:-without} the simulator for browsers" >&2
