#!/usr/bin/env bash
# Runs every test, privileged ones included, and ends with one line that counts them all. The last test counts the
# simulator's instructions a packet. Tests that skip themselves are listed and counted as skipped; in CI a test that is
# skipped for want of a privilege or of a tool that setup.sh installs fails the run.
set -u
log=$(mktemp)
export LONGFAT_SKIPPED
LONGFAT_SKIPPED=$(mktemp)
# Most labs wait more than they compute, so more tests than processors run at a time (crates/cli/tests/common/turn.rs).
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-8}
trap 'rm -f "$log" "$LONGFAT_SKIPPED"' EXIT
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
costly=0
cargo bench --quiet --locked -p longfat-sim --bench tcp -- instructions || costly=1
avoidable=0
if [ -s "$LONGFAT_SKIPPED" ]; then
    echo "skipped tests (what is missing, test, cause):"
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
        # A program that was not built or ended by a signal is a failure too.
        if (status != 0 && failed == 0) failed = 1
        if (costly) failed += 1; else passed += 1
        printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed + avoidable, ignored + skipped - avoidable
    }' "$log"
[ "$status" -eq 0 ] && [ "$costly" -eq 0 ] && [ "$avoidable" -eq 0 ]
