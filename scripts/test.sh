#!/usr/bin/env bash
# Runs every test, privileged ones included, and prints one line with the totals. The last test compares the simulator's
# instructions per packet with the committed counts. Tests that skip themselves are listed and counted as skipped. In CI a
# test fails if it is skipped because a privilege is missing, or a tool that setup.sh installs.
set -u
log=$(mktemp)
export LONGFAT_SKIPPED
LONGFAT_SKIPPED=$(mktemp)
# Most labs wait more than they compute, so more tests run in parallel than there are processors (crates/cli/tests/common/lab_slots.rs).
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-8}
trap 'rm -f "$log" "$LONGFAT_SKIPPED"' EXIT
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
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
awk -v status="$status" -v costly="$costly" -v avoidable="$avoidable" \
    -v skipped="$(cut -f2 "$LONGFAT_SKIPPED" | sort -u | wc -l)" '
    /^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END {
        # A test program that did not compile or was killed by a signal is a failure too.
        if (status != 0 && failed == 0) failed = 1
        if (costly) failed += 1; else passed += 1
        printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed + avoidable, ignored + skipped - avoidable
    }' "$log"
[ "$status" -eq 0 ] && [ "$costly" -eq 0 ] && [ "$avoidable" -eq 0 ]
