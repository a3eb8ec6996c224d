#!/bin/sh
# The same bits in whatever order threads and blocks run: five orders of every op that sums.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}/cuda-emu
passed=0 failed=0
EMU_GUARD=0 EMU_SEED=0 timeout 120 "$build/fast/order" >"$build/order.0" || failed=1
lines=$(wc -l <"$build/order.0")
for seed in 1 2 3 4; do
	EMU_GUARD=0 EMU_SEED=$seed timeout 120 "$build/fast/order" >"$build/order.$seed" || failed=$((failed + 1))
	different=$(diff "$build/order.0" "$build/order.$seed" | tee "$build/order.diff" | grep -c '^>')
	passed=$((passed + lines - different)) failed=$((failed + different))
	[ "$different" -eq 0 ] || head -n 6 "$build/order.diff"
done
[ "$lines" -gt 40 ] || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
