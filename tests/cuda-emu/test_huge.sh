#!/bin/sh
# Each op on arrays of more than 2^32 elements, of which only what is touched exists. Prints
# `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}/cuda-emu
passed=0 failed=0
log=$build/huge.log
export EMU_HUGE=1 EMU_GUARD=0 EMU_MEMORY=137000000000

for mode in fast gcc; do
	for case in $("$build/$mode/huge"); do
		if timeout 60 "$build/$mode/huge" "$case" >"$log" 2>&1; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			echo "$mode, $case:"
			tail -n 5 "$log"
		fi
	done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
