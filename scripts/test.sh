#!/usr/bin/env bash
# Runs every test, privileged ones included, and ends with one line that counts them all.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
awk -v status="$status" '
    /^test result:/ { passed += $4; failed += $6; skipped += $8 }
    END {
        # Something that did not even build or run is a failure too.
        if (status != 0 && failed == 0) failed = 1
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$log"
exit "$status"
