#!/bin/sh
# The emulated instructions against the text of the PTX ISA, in each build and order of threads.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}/cuda-emu
passed=0 failed=0
log=$build/instructions.log

for mode in fast asan race gcc; do
	for test in test_instructions test_arithmetic; do
		for seed in 0 1 2; do
			if EMU_SEED=$seed timeout 60 "$build/$mode/$test" >"$log" 2>&1; then
				passed=$((passed + 1))
			else
				failed=$((failed + 1))
				echo "$mode, $test, seed $seed:"
				tail -n 5 "$log"
			fi
		done
	done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
