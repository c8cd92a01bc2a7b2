#!/usr/bin/env bash
# Runs every test, privileged ones included, and prints one line with the totals. The last test compares the simulator's
# instructions per packet with the committed counts. Tests that report themselves as skipped are listed and counted. In CI a
# test fails if it is skipped because a privilege is missing, or a tool that setup.sh installs.
#
# Failed tests are repeated once, without other tests: labs and sockets can be disturbed
# by other programs on the machine. A test that then passes is listed as disturbed and counted as passed. A test program that
# does not compile, or is killed by a signal, is a failure at once.
set -u
log=$(mktemp)
repeated=$(mktemp)
export LONGFAT_SKIPPED
LONGFAT_SKIPPED=$(mktemp)
# Most labs wait more than they compute, so more tests run in parallel than there are processors (crates/cli/tests/common/lab_slots.rs).
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-8}
trap 'rm -f "$log" "$repeated" "$LONGFAT_SKIPPED"' EXIT

# The names of the failed tests of a log: the last list "failures:" of each test program (the first one has their output).
failed_tests() {
    awk '/^failures:$/ { names = "" }
        /^    [^ ]/ { names = names substr($0, 5) "\n" }
        /^test result:/ { if (/FAILED/) printf "%s", names; names = "" }' "$1" | LC_ALL=C sort -u
}

cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
disturbed=0
mapfile -t failed < <(failed_tests "$log")
if [ "${#failed[@]}" -gt 0 ] && ! grep -qE '\(signal: |^error: could not compile' "$log"; then
    echo "repeated: ${failed[*]}"
    cargo test --workspace --locked --no-fail-fast -- --exact --test-threads=1 "${failed[@]}" 2>&1 | tee "$repeated"
    status=${PIPESTATUS[0]}
    mapfile -t failing < <(failed_tests "$repeated")
    disturbed=$((${#failed[@]} - ${#failing[@]}))
    echo "disturbed tests, which passed when repeated:"
    LC_ALL=C comm -23 <(printf '%s\n' "${failed[@]}") <(printf '%s\n' "${failing[@]}")
fi
costly=0
cargo bench --quiet --locked -p longfat-sim --bench tcp -- instructions || costly=1
avoidable=0
if [ -s "$LONGFAT_SKIPPED" ]; then
    echo "skipped tests (missing, test, cause):"
    sort "$LONGFAT_SKIPPED"
    if [ "${CI:-}" = true ]; then
        avoidable=$(grep -cE $'^(privilege|tool)\t' "$LONGFAT_SKIPPED")
        [ "$avoidable" -eq 0 ] || echo "CI has every privilege and installs every tool: $avoidable of these count as failed"
    fi
fi
awk -v status="$status" -v costly="$costly" -v avoidable="$avoidable" -v disturbed="$disturbed" \
    -v skipped="$(cut -f2 "$LONGFAT_SKIPPED" | sort -u | wc -l)" '
    /^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END {
        passed += disturbed
        failed -= disturbed
        # A test program that did not compile or was killed by a signal is a failure too.
        if (status != 0 && failed == 0) failed = 1
        if (costly) failed += 1; else passed += 1
        printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed + avoidable, ignored + skipped - avoidable
    }' "$log"
[ "$status" -eq 0 ] && [ "$costly" -eq 0 ] && [ "$avoidable" -eq 0 ]
