#!/usr/bin/env bash
# Runs every test, privileged ones included, and ends with one line that counts them all. The last test counts the
# simulator's instructions a packet.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
costly=0
cargo bench --quiet --locked -p longfat-sim --bench tcp -- instructions || costly=1
awk -v status="$status" -v costly="$costly" '
    /^test result:/ { passed += $4; failed += $6; skipped += $8 }
    END {
        # Something that did not even build or run is a failure too.
        if (status != 0 && failed == 0) failed = 1
        if (costly) failed += 1; else passed += 1
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$log"
[ "$status" -eq 0 ] && [ "$costly" -eq 0 ]
